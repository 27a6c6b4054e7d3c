// waybill make-checkpoint: a new checkpoint of any family and size with random weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "model/random_checkpoint.h"
#include "progress.h"
#include "text.h"
#include "waybill/checkpoint.h"

namespace waybill::cli {
namespace {

struct Options {
  RandomCheckpoint checkpoint{
      .family = {}, .hidden = 256, .ff = 128, .experts = 8, .topk = 2, .layers = 2};
  std::string directory;
  bool json = false;
};

Exit make(const Options& options) {
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
  fmt::print(
      "{}{}{}", field("checkpoint", options.directory),
      field("wrote", fmt::format("{} files, {} tensors, {}", written.files, written.tensors,
                                 bytes_text(static_cast<std::int64_t>(written.tensor_bytes)))),
      field("next", fmt::format("waybill run {} --check", options.directory)));
  return Exit::success;
}

}  // namespace

void add_make_checkpoint(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  RandomCheckpoint& checkpoint = options->checkpoint;
  CLI::App* command = app.add_subcommand(
      "make-checkpoint",
      "Write the MoE layers of a new checkpoint with random bf16 weights, in its family's layout.");
  command
      ->add_option("--family", checkpoint.family,
                   fmt::format("{}", fmt::join(family_names(), ", ")))
      ->type_name("NAME")
      ->required();
  command->add_option("--out", options->directory, "Folder to write, new or empty")
      ->type_name("DIR")
      ->required();
  const auto size = [&](const char* name, std::int32_t& value, const char* text) {
    command->add_option(name, value, fmt::format("{}; default {}", text, value))->type_name("N");
  };
  size("--hidden", checkpoint.hidden, "Width of a row");
  size("--ff", checkpoint.ff, "Intermediate width of an expert");
  size("--experts", checkpoint.experts, "Experts of a layer");
  size("--topk", checkpoint.topk, "Experts a token chooses");
  size("--layers", checkpoint.layers, "Layers, all with experts");
  size("--shards", checkpoint.shards, "Files of weights");
  command->add_option("--seed", checkpoint.seed, "Fixes the weights; default 0")->type_name("N");
  command->add_flag("--json", options->json, "Machine-readable output");
  command->footer(
      "Example: waybill make-checkpoint --family mixtral --experts 16 --out new");
  command->callback([options, &action] { action = [options] { return make(*options); }; });
}

}  // namespace waybill::cli
