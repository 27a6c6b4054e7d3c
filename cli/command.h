// A subcommand declares its options; what it is to do runs after the whole line was parsed.
#pragma once

namespace waybill::cli {

class CommandLine;

// The exit status that scripts may rely on.
enum class Exit : int {
  success = 0,
  violation = 1,  // the work was done and a contract does not hold
  usage = 2,      // wrong usage or unreadable input: nothing was done
};

void add_run(CommandLine& line);
void add_plan(CommandLine& line);
void add_balance(CommandLine& line);
void add_convert(CommandLine& line);
void add_doctor(CommandLine& line);
void add_explain(CommandLine& line);
void add_make_checkpoint(CommandLine& line);
void add_verify(CommandLine& line);
// The subcommands of later versions, refused by name.
void add_later(CommandLine& line);

}  // namespace waybill::cli
