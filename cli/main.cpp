// waybill: the command.
#include <algorithm>
#include <exception>
#include <new>
#include <string_view>

#include "command.h"
#include "command_line.h"
#include "failure.h"
#include "waybill/error.h"

int main(int argc, char** argv) {
  using namespace waybill;
  const bool json = std::any_of(argv, argv + argc,
                                [](std::string_view argument) { return argument == "--json"; });
  try {
    cli::CommandLine line;
    cli::add_run(line);
    cli::add_plan(line);
    cli::add_doctor(line);
    cli::add_explain(line);
    cli::add_make_checkpoint(line);
    cli::add_verify(line);
    cli::add_later(line);
    return static_cast<int>(cli::finish_output(line.execute(argc, argv)));
  } catch (const Error& error) {
    return static_cast<int>(cli::report(error, json));
  } catch (const std::bad_alloc&) {
    return static_cast<int>(cli::report(Error(Code::MemoryExhausted), json));
  } catch (const std::exception& failure) {
    return static_cast<int>(cli::report(failure, json));
  }
}
