// waybill: the command.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "command.h"
#include "command_line.h"
#include "failure.h"
#include "truncation.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

Exit command(int argc, char** argv) {
  const bool json = std::any_of(argv, argv + argc,
                                [](std::string_view argument) { return argument == "--json"; });
  std::signal(SIGXFSZ, SIG_IGN);  // a file past the limit is a write that fails
  report_truncated_files(json);
  try {
    CommandLine line;
    add_run(line);
    add_plan(line);
    add_balance(line);
    add_convert(line);
    add_doctor(line);
    add_explain(line);
    add_make_checkpoint(line);
    add_verify(line);
    add_later(line);
    return finish_output(line.execute(argc, argv));
  } catch (const Error& error) {
    return report(error, json);
  } catch (const std::bad_alloc&) {
    const std::string_view subcommand = argc > 1 ? argv[1] : "";
    return report(Error(Code::MemoryExhausted)
                      .at("command", fmt::format("waybill {}", subcommand))
                      .note("fewer tokens, experts or layers need less"),
                  json);
  } catch (const std::exception& failure) {
    return report(failure, json);
  }
}

}  // namespace
}  // namespace waybill::cli

int main(int argc, char** argv) {
  try {
    return static_cast<int>(waybill::cli::command(argc, argv));
  } catch (...) {  // while an error was reported, most likely for want of memory
    std::fputs("waybill: an error could not be reported\n", stderr);
    return static_cast<int>(waybill::cli::Exit::violation);
  }
}
