// waybill make-checkpoint: a new checkpoint of any family and size with random weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "command_line.h"
#include "model/random_checkpoint.h"
#include "progress.h"
#include "text.h"
#include "waybill/checkpoint.h"

namespace waybill::cli {
namespace {

struct MakeOptions {
  RandomCheckpoint checkpoint{
      .family = {}, .hidden = 256, .ff = 128, .experts = 8, .topk = 2, .layers = 2};
  std::string directory;
  bool json = false;
};

Exit make(const MakeOptions& options) {
  Progress progress("file", options.checkpoint.shards);
  const WrittenCheckpoint written = write_random_checkpoint(
      options.checkpoint, options.directory, [&](std::int32_t file) { progress.begin(file); });
  if (options.json) {
    write_json({{"directory", options.directory},
                {"family", options.checkpoint.family},
                {"files", written.files},
                {"tensors", written.tensors},
                {"tensor_bytes", written.tensor_bytes}});
    return Exit::success;
  }
  write_text(
      field("checkpoint", options.directory) +
      field("wrote", fmt::format("{} files, {} tensors, {}", written.files, written.tensors,
                                 bytes_text(static_cast<std::int64_t>(written.tensor_bytes)))) +
      field("next", fmt::format("waybill run {} --check", options.directory)));
  return Exit::success;
}

}  // namespace

void add_make_checkpoint(CommandLine& line) {
  auto options = std::make_shared<MakeOptions>();
  RandomCheckpoint& checkpoint = options->checkpoint;
  Subcommand command = line.add(
      "make-checkpoint",
      "Write the MoE layers of a new checkpoint with random bf16 weights, in its family's layout.",
      [options] { return make(*options); });
  command.word("--family", checkpoint.family, "NAME",
               fmt::format("{}", fmt::join(family_names(), ", ")));
  command.require("--family");
  command.word("--out", options->directory, "DIR", "Folder to write, new or empty");
  command.require("--out");
  constexpr Range widths{1, 1 << 20}, counts{1, 1 << 14};
  command.number("--hidden", checkpoint.hidden, widths, "Width of a row");
  command.number("--ff", checkpoint.ff, widths, "Intermediate width of an expert");
  command.number("--experts", checkpoint.experts, counts, "Experts of a layer");
  command.number("--topk", checkpoint.topk, counts, "Experts that a token chooses");
  command.number("--layers", checkpoint.layers, counts, "Layers, all with experts");
  command.number("--shards", checkpoint.shards, counts, "Files of weights");
  command.number("--seed", checkpoint.seed, seed_range, "Fixes the weights");
  command.flag("--json", options->json, "Machine-readable output");
  command.example("waybill make-checkpoint --family mixtral --experts 16 --out new");
}

}  // namespace waybill::cli
