// A subcommand adds itself to the parser; what it is to do runs after the whole line was parsed.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace waybill::cli {

// The exit status that scripts may rely on.
enum class Exit : int {
  success = 0,
  violation = 1,  // the run was carried out and a contract does not hold
  usage = 2,      // wrong usage or unreadable input: nothing was carried out
};

// What the chosen subcommand does; set by the parser.
using Action = std::function<Exit()>;

void add_run(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_make_checkpoint(CLI::App& app, Action& action);
// The subcommands of later versions, refused by name.
void add_later(CLI::App& app, Action& action);

}  // namespace waybill::cli
