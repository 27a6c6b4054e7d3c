// Text for a terminal of 80 columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace waybill::cli {

inline constexpr std::size_t page_columns = 80;

// Breaks at spaces so that no line is longer than `columns`; a longer word keeps its own line.
std::string wrap(std::string_view text, std::size_t columns);
// Puts `spaces` blanks before every line.
std::string indent(std::string_view text, std::size_t spaces);
// "model       qwen3_moe, …": a label and its value, wrapped under itself; ends the line.
std::string field(std::string_view label, std::string_view value, std::size_t label_columns = 12);

// What a file names as a terminal may be given it: control characters become "?", as in the texts
// of errors.
std::string printable(std::string_view name);

// "96 B", "1.5 KiB", "2.0 GiB"
std::string bytes_text(std::int64_t bytes);
// "850 ns", "1.25 ms", "3.2 s"
std::string time_text(std::int64_t nanoseconds);
// "4 4 4 4", or "16 x 4" when all are equal and there are many
std::string counts_text(std::span<const std::int64_t> counts);

// On stdout. What can't be written is told by finish_output().
void write_text(std::string_view text);
// Pretty-printed on stdout. Text that isn't UTF-8 (a file name can be anything) is replaced.
void write_json(const nlohmann::ordered_json& document);

}  // namespace waybill::cli
