// How an error reaches the person or program that called the command.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "command.h"
#include "waybill/error.h"

namespace waybill::cli {

// Input and usage errors, and every error of a file or an option that was named, are the caller's
// to mend. Loads that were read and can't be loads are a violation.
Exit exit_of(const Error& error);

// One message on stderr; with `json` also {"error": {…}} on stdout. Returns the exit status.
Exit report(const Error& error, bool json);
// The same for a failure that isn't ours, such as memory that ran out.
Exit report(const std::exception& failure, bool json);
// `status`; FileUnwritable when what was printed didn't reach stdout.
Exit finish_output(Exit status);

// {code, where, expected, found}: the form that errors and violations share.
nlohmann::ordered_json to_json(const Error& error);

// Runs `body`; an error that doesn't name a file yet is given `file`.
template <class Body>
auto reading(std::string_view file, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    if (error.coordinate("file").empty()) error.at("file", file);
    throw;
  }
}

}  // namespace waybill::cli
