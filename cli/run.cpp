// waybill run: the MoE layers of a checkpoint over ranks, checked, with what that cost.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/narrow_float.h"
#include "command.h"
#include "command_line.h"
#include "compare.h"
#include "progress.h"
#include "run_result.h"
#include "seeded_rows.h"
#include "size_limits.h"
#include "waybill/block.h"
#include "waybill/digest.h"
#include "waybill/thread_pool.h"

namespace waybill::cli {
namespace {

static_assert(std::endian::native == std::endian::little,
              "output_sha256 is over little-endian bytes");

// One run: a group of ranks, a placement, and the checkpoint's experts.
class Runner {
 public:
  Runner(const RunOptions& options, const Checkpoint& checkpoint, Layout layout)
      : options_(options),
        checkpoint_(checkpoint),
        settings_(resolve_settings(options.step)),
        topology_(std::move(layout.topology)),
        group_(std::move(layout.group),
               CommOptions{std::chrono::milliseconds(options.step.timeout_ms)}),
        store_(checkpoint, settings_.dtype) {
    const PlacementVersion version = layout.generation.version;
    registry_.load(std::move(layout.generation));
    registry_.activate(version);
  }

  BlockRun run(LayerId layer, std::span<const float> hidden) {
    const BlockOptions options{settings_.dtype, settings_.selector, options_.step.dedup,
                               settings_.checks};
    return run_block(checkpoint_, layer, options, store_, group_, registry_, topology_, hidden);
  }
  // Gives back what a layer holds, so that memory doesn't grow with the number of layers.
  void drop(LayerId layer) {
    store_.drop(layer);
    checkpoint_.drop_pages(layer);
  }

 private:
  const RunOptions& options_;
  const Checkpoint& checkpoint_;
  StepSettings settings_;
  Topology topology_;
  LocalGroup group_;
  PlacementRegistry registry_;
  ExpertStore store_;
};

void hash_output(Sha256& sha, DType dtype, std::span<const float> block_out) {
  if (dtype == DType::f32) {
    sha.update(std::as_bytes(block_out));
    return;
  }
  std::vector<std::uint16_t> narrow(block_out.size());
  std::ranges::transform(block_out, narrow.begin(), round_to_bf16);
  sha.update(std::as_bytes(std::span(narrow)));
}

Nanoseconds StepReport::Times::*const phases[] = {
    &StepReport::Times::load,      &StepReport::Times::plan,     &StepReport::Times::agree,
    &StepReport::Times::pack,      &StepReport::Times::dispatch, &StepReport::Times::experts,
    &StepReport::Times::give_back, &StepReport::Times::combine,  &StepReport::Times::total};

LayerRun describe(LayerId layer, const BlockRun& run) {
  LayerRun described;
  described.layer = layer;
  described.rows = run.rows;
  described.bytes = run.bytes;
  described.live =
      live_ledger(step_buffers(run.rows, run.bytes, run.representation), step_events());
  for (const StepReport& rank : run.ranks) {
    described.rank_rows.push_back(rank.received.value);
    described.reserved = std::max(described.reserved, rank.workspace);
    for (auto phase : phases) {
      described.slowest.*phase = std::max(described.slowest.*phase, rank.time.*phase);
    }
  }
  return described;
}

// A recording that is compared in part only would seem to have been compared whole.
void check_recorded_blocks(const Golden& golden, const Checkpoint& checkpoint,
                           std::span<const LayerId> layers) {
  const auto recorded = [&](LayerId layer) { return golden.has(checkpoint.block_name(layer)); };
  if (std::ranges::none_of(layers, recorded)) {
    throw Error(Code::MissingTensor)
        .at("file", golden.file())
        .expected(checkpoint.block_name(layers.front()) + ".block_in")
        .note("no block of the chosen layers is recorded");
  }
  std::set<std::string> blocks = golden.blocks();
  for (LayerId layer : checkpoint.config().moe_layers) blocks.erase(checkpoint.block_name(layer));
  if (blocks.empty()) return;
  throw Error(Code::InvalidValue)
      .at("file", golden.file())
      .at("tensor", *blocks.begin() + ".block_in")
      .expected("blocks of the model's layers with experts")
      .found(*blocks.begin());
}

void describe_layout(const RunOptions& options, const Layout& layout,
                     std::span<const LayerId> layers, RunResult& result) {
  result.placement = layout.generation.version.value;
  const Placement& placement = layout.generation.layer(layers.front());
  const std::vector<std::int64_t> offsets = token_offsets(options.step.tokens, options.step.ranks);
  for (std::int32_t r = 0; r < placement.ranks(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    result.rank_slots.push_back(std::ssize(placement.slots_on(Rank{r})));
    result.rank_tokens.push_back(offsets[i + 1] - offsets[i]);
    result.peer_order.push_back(layout.group.peer_order()[i].value);
  }
}

MeasuredBytes peak_resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return MeasuredBytes{std::int64_t{usage.ru_maxrss} * 1024};
}

RunResult execute(RunOptions& options) {
  const StepSettings settings = resolve_settings(options.step);
  const Checkpoint checkpoint = Checkpoint::open(options.step.checkpoint);
  const ModelConfig& model = checkpoint.config();
  check_dedup(model, options.step.dedup);
  limit_route_rows("waybill run", options.step.tokens, model.topk, model.hidden);
  Layout layout = resolve_layout(options.step, model.experts, model.moe_layers);
  const std::vector<LayerId> layers = resolve_layers(options.step, model.moe_layers);
  limit_slot_counts("waybill run", layout, layers);
  std::optional<Golden> golden;
  if (!options.golden.empty()) {
    golden = Golden::open(options.golden);
    check_recorded_blocks(*golden, checkpoint, layers);
  }

  RunResult result;
  result.model = model;
  result.unused_tensors = checkpoint.inventory().unused;
  result.kernels = cpu_kernel_target();
  if (golden) result.golden_file = golden->file();
  describe_layout(options, layout, layers, result);
  const std::int64_t check_count = tokens_to_check(options, model, layers.size());
  Runner runner(options, checkpoint, std::move(layout));
  ThreadPool pool(static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency())));
  Progress progress("layer", std::ssize(layers));
  Sha256 sha;
  for (LayerId layer : layers) {
    progress.begin(std::ssize(result.layers) + 1);
    const auto hidden = seeded_rows(options.step.seed, layer, options.step.tokens, model.hidden);
    const BlockRun run = runner.run(layer, hidden);
    hash_output(sha, settings.dtype, run.block_out);
    LayerRun described = describe(layer, run);
    if (options.check) {
      described.check = compare_directly(checkpoint, layer, run, hidden, check_count, pool);
      collect_violations(layer, "direct evaluation", *described.check, settings.dtype,
                         result.violations);
    }
    const std::string block = checkpoint.block_name(layer);
    if (golden && golden->has(block)) {
      const RecordedBlock recorded = golden->block(block, model);
      described.golden = compare_recorded(model, recorded, runner.run(layer, recorded.block_in));
      collect_violations(layer, "recording", *described.golden, settings.dtype, result.violations);
    }
    result.layers.push_back(std::move(described));
    runner.drop(layer);
  }
  result.output_sha256 = sha.finish_hex();
  result.peak_resident = peak_resident();
  return result;
}

Exit run(RunOptions& options) {
  if (options.step.checkpoint.empty()) {
    throw Error(Code::UsageError).at("command", "waybill run").expected("CHECKPOINT_DIR");
  }
  const RunResult result = execute(options);
  if (options.step.json) {
    print_json(options, result);
  } else {
    print_text(options, result);
  }
  return result.violations.empty() ? Exit::success : Exit::violation;
}

}  // namespace

void add_run(CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  Subcommand command = line.add(
      "run",
      "Run the MoE layers of a checkpoint over ranks; show what it cost and whether it is right.",
      [options] { return run(*options); });
  command.flag("--check", options->check, "Compare with a direct evaluation in double precision");
  command.number("--check-tokens", options->check_tokens, Range{1, token_range.high},
                 "Tokens a layer that --check evaluates; default: what takes seconds");
  command.need("--check-tokens", "--check");
  command.word("--golden", options->golden, "FILE",
               "Run every recorded block of a golden.safetensors on its recorded rows and compare");
  add_step_options(command, options->step);
  command.example("waybill run tests/data/checkpoints/qwen3_moe --ranks 4 --check");
}

}  // namespace waybill::cli
