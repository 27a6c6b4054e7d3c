// Runs the command as a person or a script would.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::testing {

struct Finished {
  int exit = -1;
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// `program` with `arguments`, no standard input. A signal counts as exit 128 + its number.
Finished execute(const std::string& program, const std::vector<std::string>& arguments);

// Characters of the longest line; bytes of UTF-8 sequences count once.
std::size_t longest_line(std::string_view text);

}  // namespace waybill::testing
