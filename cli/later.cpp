// Subcommands that this version doesn't have. They are known, so that the refusal can say so.
#include <array>

#include "command.h"
#include "command_line.h"
#include "waybill/error.h"

namespace waybill::cli {

void add_later(CommandLine& line) {
  for (const char* name :
       std::to_array({"migrate", "release", "serve", "eval", "bench", "report"})) {
    line.add_hidden(name,
                    [name]() -> Exit { throw Error(Code::OptionNotBuilt).at("command", name); });
  }
}

}  // namespace waybill::cli
