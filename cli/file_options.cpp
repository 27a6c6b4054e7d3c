#include "file_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "command_line.h"
#include "waybill/error.h"
#include "waybill/placement_file.h"

namespace waybill::cli {
namespace {

constexpr std::int32_t most_listed = 1 << 16;  // ids of one list

constexpr auto formats =
    std::to_array({FileFormat::waybill, FileFormat::sglang, FileFormat::vllm, FileFormat::ascend,
                   FileFormat::tensorrt_llm, FileFormat::megatron, FileFormat::eplb});

std::int32_t parse_listed(std::string_view option, std::string_view list, std::string_view id) {
  std::int32_t value = 0;
  const auto [end, fault] = std::from_chars(id.data(), id.data() + id.size(), value);
  if (fault == std::errc{} && end == id.data() + id.size() && value >= 0 && value < most_listed) {
    return value;
  }
  throw Error(Code::InvalidValue)
      .at("option", option)
      .expected(fmt::format("ids below {} such as 0,2-5", most_listed))
      .found(list);
}

// The expert of every slot, rank after rank: one row a layer.
std::vector<std::vector<std::int32_t>> slot_experts(const PlacementTable& table) {
  std::vector<std::vector<std::int32_t>> rows;
  for (const SlotLists& lists : table.slots) {
    auto& row = rows.emplace_back();
    for (const auto& list : lists) row.insert(row.end(), list.begin(), list.end());
  }
  return rows;
}

}  // namespace

void add_file_options(Subcommand& command, FileOptions& options) {
  const char* group = "What files leave unsaid";
  command.word("--set", options.set, "NAME", "Of a file that holds several named loads", group);
  command.word("--dense-layers", options.dense_layers, "LIST",
               "Model layers without experts, e.g. 0-2", group);
  command.word("--slot-map", options.slot_map, "FILE",
               "Placement in which loads by slot were counted", group);
}

FileHints hints_of(const FileOptions& options, std::int64_t ranks) {
  FileHints hints;
  hints.set = options.set;
  if (!options.dense_layers.empty()) {
    for (std::int32_t id : parse_ids("--dense-layers", options.dense_layers)) {
      hints.dense_layers.emplace_back(id);
    }
  }
  if (ranks > 0) hints.ranks = static_cast<std::int32_t>(ranks);
  if (!options.slot_map.empty()) {
    FileHints map = hints;
    if (!map.ranks) map.ranks = 1;  // the order of slots is all that matters
    hints.slot_experts = slot_experts(read_placement_table(options.slot_map, map));
  }
  return hints;
}

FileFormat format_of(std::string_view option, const std::string& word) {
  std::string known = word;
  std::ranges::replace(known, '-', '_');
  FileFormat format = FileFormat::waybill;
  if (find_format(known, format)) return format;
  throw Error(Code::UsageError)
      .at("option", option)
      .expected(fmt::format("one of {}", format_names()))
      .found(word);
}

std::string format_names() {
  std::string names;
  for (FileFormat format : formats) {
    if (!names.empty()) names += ", ";
    names += name(format);
  }
  return names;
}

std::vector<std::int32_t> parse_ids(std::string_view option, std::string_view list) {
  std::vector<std::int32_t> ids;
  for (std::string_view rest = list;;) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, end);
    const std::size_t dash = std::min(part.find('-'), part.size());
    const std::int32_t first = parse_listed(option, list, part.substr(0, dash));
    const std::int32_t last =
        dash == part.size() ? first : parse_listed(option, list, part.substr(dash + 1));
    if (last < first || last - first >= most_listed - static_cast<std::int32_t>(ids.size())) {
      throw Error(Code::InvalidValue)
          .at("option", option)
          .expected("ascending ranges of ids, e.g. 0,2-5")
          .found(list);
    }
    for (std::int32_t id = first; id <= last; ++id) ids.push_back(id);
    if (end == rest.size()) return ids;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace waybill::cli
