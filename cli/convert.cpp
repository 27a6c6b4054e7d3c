// waybill convert: loads and placements from one system's format into another's.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "command_line.h"
#include "failure.h"
#include "file_options.h"
#include "text.h"
#include "waybill/error.h"
#include "waybill/placement_file.h"

namespace waybill::cli {
namespace {

struct ConvertCommand {
  std::string from, to;
  std::string from_format, to_format;
  FileOptions files;
  std::int64_t ranks = 0, experts = 0, topk = 0;
  bool json = false;
};

// What was read, for the report.
struct Converted {
  std::string kind;  // "loads" or "placement"
  FileFormat from = FileFormat::waybill, to = FileFormat::waybill;
  std::vector<std::int32_t> layers, dense_layers;  // no layers: one placement for all
  std::int32_t experts = 0;
  std::int64_t windows = 0, ranks = 0;  // of loads; of a placement
  std::vector<std::string> warnings;
};

std::vector<std::int32_t> ids_of(std::span<const LayerId> layers) {
  std::vector<std::int32_t> ids;
  for (LayerId layer : layers) ids.push_back(layer.value);
  return ids;
}

void expect_format(const ConvertCommand& command, FileFormat found) {
  if (command.from_format.empty()) return;
  const FileFormat stated = format_of("--from-format", command.from_format);
  if (stated == found) return;
  throw Error(Code::UnknownFormat)
      .at("file", command.from)
      .expected(fmt::format("{} as --from-format says", name(stated)))
      .found(name(found));
}

Converted convert_loads(const ConvertCommand& command, FileFormat to, const FileHints& hints) {
  LoadSeries series = read_loads(command.from, hints);
  expect_format(command, series.format);
  if (command.topk > 0) series.topk = static_cast<std::int32_t>(command.topk);
  write_loads(command.to, to, series);
  const LoadMatrix& load = series.windows.front().load;
  return {.kind = "loads",
          .from = series.format,
          .to = to,
          .layers = ids_of(load.layers()),
          .dense_layers = ids_of(series.dense_layers),
          .experts = load.experts(),
          .windows = std::ssize(series.windows),
          .warnings = std::move(series.warnings)};
}

Converted convert_placement(const ConvertCommand& command, FileFormat to, const FileHints& hints) {
  const PlacementTable table =
      reading(command.from, [&] { return read_placement_table(command.from, hints); });
  expect_format(command, table.format);
  write_placement_table(command.to, to, table);
  return {.kind = "placement",
          .from = table.format,
          .to = to,
          .layers = ids_of(table.layers),
          .dense_layers = ids_of(table.dense_layers),
          .experts = table.experts,
          .ranks = table.ranks(),
          .warnings = {}};
}

void print(const ConvertCommand& command, const Converted& converted) {
  if (command.json) {
    write_json({{"kind", converted.kind},
                {"from", {{"file", command.from}, {"format", name(converted.from)}}},
                {"to", {{"file", command.to}, {"format", name(converted.to)}}},
                {"layers", converted.layers},
                {"dense_layers", converted.dense_layers},
                {"experts", converted.experts},
                {"windows", converted.windows},
                {"ranks", converted.ranks},
                {"warnings", converted.warnings}});
    return;
  }
  const std::string layers =
      converted.layers.empty()
          ? "one for every layer"
          : fmt::format("{} layer{} from {}", converted.layers.size(),
                        converted.layers.size() == 1 ? "" : "s", converted.layers.front());
  const std::string size = converted.kind == "loads" ? fmt::format("{} windows", converted.windows)
                                                     : fmt::format("{} ranks", converted.ranks);
  std::string text =
      field("read", fmt::format("{}: {} {}, {}, {} experts, {}", command.from, name(converted.from),
                                converted.kind, layers, converted.experts, size));
  for (const std::string& warning : converted.warnings) text += field("warning", warning);
  text += field("wrote", fmt::format("{} ({})", command.to, name(converted.to)));
  write_text(text);
}

Exit convert(const ConvertCommand& command) {
  if (command.from.empty() || command.to.empty()) {
    throw Error(Code::UsageError)
        .at("command", "waybill convert")
        .expected("a file to read and one to write")
        .found(command.from.empty() ? "none" : "one");
  }
  const FileFormat to = format_of("--to-format", command.to_format);
  FileHints hints = hints_of(command.files, command.ranks);
  if (command.experts > 0) hints.experts = static_cast<std::int32_t>(command.experts);
  const bool loads = holds_loads(command.from);
  print(command, loads ? convert_loads(command, to, hints) : convert_placement(command, to, hints));
  return Exit::success;
}

}  // namespace

void add_convert(CommandLine& line) {
  auto options = std::make_shared<ConvertCommand>();
  options->to_format = name(FileFormat::waybill);
  Subcommand command =
      line.add("convert", "Loads and placements from one system's format into another's.",
               [options] { return convert(*options); });
  command.positional("FROM", options->from, "File or folder to read; its format is detected");
  command.positional("TO", options->to, "File to write, or folder for tensorrt_llm loads");
  command.word("--to-format", options->to_format, "NAME", format_names());
  command.word("--from-format", options->from_format, "NAME",
               "Refuse a file of another format than this");
  command.flag("--json", options->json, "Machine-readable output on stdout");
  add_file_options(command, options->files);
  const char* group = "What files leave unsaid";
  command.number("--ranks", options->ranks, Range{1, 4096},
                 "Ranks of a placement that lists slots alone", group);
  command.number("--experts", options->experts, Range{1, 1 << 16},
                 "Experts of a placement; default its largest id + 1", group);
  command.number("--topk", options->topk, Range{1, 1 << 16}, "Experts that a token chooses", group);
  command.example(
      "waybill convert expert_distribution_recorder.json loads.json\n"
      "         waybill convert plan.json map.json --to-format sglang");
}

}  // namespace waybill::cli
