// Subcommands that this version doesn't have. They are known, so that the refusal can say so.
#include <CLI/CLI.hpp>
#include <array>

#include "command.h"
#include "waybill/error.h"

namespace waybill::cli {

void add_later(CLI::App& app, Action& action) {
  for (const char* name : std::to_array({"balance", "migrate", "convert", "verify", "release",
                                         "serve", "eval", "bench", "report"})) {
    CLI::App* command = app.add_subcommand(name);
    command->group("");          // not in the help
    command->prefix_command();   // whatever stands behind it
    command->set_help_flag("");  // --help included
    command->callback([name, &action] {
      action = [name]() -> Exit { throw Error(Code::OptionNotBuilt).at("command", name); };
    });
  }
}

}  // namespace waybill::cli
