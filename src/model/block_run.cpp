#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "waybill/block.h"
#include "waybill/error.h"

namespace waybill {

std::vector<std::int64_t> token_offsets(std::int64_t tokens, std::int64_t ranks) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(ranks) + 1, 0);
  for (std::int64_t r = 0; r < ranks; ++r) {
    offsets[static_cast<std::size_t>(r) + 1] =
        offsets[static_cast<std::size_t>(r)] + tokens / ranks + (r < tokens % ranks ? 1 : 0);
  }
  return offsets;
}

namespace {

std::vector<std::int64_t> stated_offsets(std::int64_t tokens, std::int64_t ranks,
                                         std::span<const std::int64_t> per_rank) {
  if (std::ssize(per_rank) != ranks) {
    throw Error(Code::RankCountMismatch)
        .at("field", "tokens_per_rank")
        .expected(ranks)
        .found(per_rank.size());
  }
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(ranks) + 1, 0);
  std::partial_sum(per_rank.begin(), per_rank.end(), offsets.begin() + 1);
  if (offsets.back() != tokens || std::ranges::any_of(per_rank, [](auto n) { return n < 0; })) {
    throw Error(Code::RouteCountMismatch)
        .at("field", "tokens_per_rank")
        .expected(tokens)
        .found(offsets.back());
  }
  return offsets;
}

void check_rank_count(std::string_view field, std::int64_t expected, std::int64_t found) {
  if (found == expected) return;
  throw Error(Code::RankCountMismatch).at("field", field).expected(expected).found(found);
}

// A run gives every rank its place by number: group, topology and placement are of ranks 0 to P-1.
void check_ranks(const ProcessGroup& group, const Topology& topology, const Placement& placement) {
  const std::int64_t ranks = group.size();
  check_rank_count("group", ranks, group.rank_of(group.by_rank().back()).value + std::int64_t{1});
  check_rank_count("topology", ranks, topology.ranks());
  check_rank_count("placement", ranks, placement.ranks());
}

RowLedger reported_rows(std::span<const StepReport> ranks, const ProcessGroup& group) {
  std::vector<RankRows> in_peer_order;
  for (const Rank rank : group.peer_order()) {
    const StepReport& report = ranks[rank.index()];
    in_peer_order.push_back({Rows{report.tokens}, Rows{report.admission.accepted},
                             Rows{report.admission.dropped}, report.sent, report.payload_sent});
  }
  return row_ledger(in_peer_order, group);
}

// Finite rows get a gate that isn't finite from the router's weights alone.
void name_router(Error& error, const Checkpoint& checkpoint, LayerId layer,
                 std::span<const float> hidden) {
  if (error.code() != Code::GateNotFinite) return;
  error.at("layer", layer);
  if (std::ranges::all_of(hidden, [](float x) { return std::isfinite(x); })) {
    error.at("file", checkpoint.directory()).at("block", checkpoint.block_name(layer));
  }
}

}  // namespace

BlockRun run_block(const Checkpoint& checkpoint, LayerId layer, const BlockOptions& options,
                   ExpertStore& store, LocalGroup& group, PlacementRegistry& registry,
                   const Topology& topology, std::span<const float> hidden,
                   std::span<const std::int64_t> tokens_per_rank) {
  const ModelConfig& config = checkpoint.config();
  const auto d = static_cast<std::size_t>(config.hidden);
  const auto k = static_cast<std::size_t>(config.topk);
  const std::size_t tokens = hidden.size() / d;
  if (tokens * d != hidden.size()) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", "hidden")
        .expected(fmt::format("[T, {}]", d))
        .found(fmt::format("{} elements", hidden.size()));
  }
  const auto total = static_cast<std::int64_t>(tokens);
  const std::int32_t ranks = topology.ranks();
  const Lease lease = registry.acquire();
  const Placement& placement = lease.generation().layer(layer);
  check_ranks(group.group(), topology, placement);
  const auto offsets = tokens_per_rank.empty() ? token_offsets(total, ranks)
                                               : stated_offsets(total, ranks, tokens_per_rank);
  BlockRun run;
  run.experts_out.resize(hidden.size());
  run.block_out.resize(hidden.size());
  run.topk_experts.resize(tokens * k);
  run.topk_gates.resize(tokens * k);
  run.ranks.resize(static_cast<std::size_t>(ranks));
  const auto run_rank = [&](Communicator& comm) {
    const std::size_t r = comm.rank().index();
    const auto first = static_cast<std::size_t>(offsets[r]);
    const auto count = static_cast<std::size_t>(offsets[r + 1]) - first;
    if (options.checks == Checks::full) {
      check_parameter_digests(checkpoint, layer, placement, comm.rank());
    }
    MoeBlock block(checkpoint, layer, options, store, comm, registry, topology);
    const TensorView rows = TensorView::contiguous(
        hidden.data() + first * d, DType::f32, {static_cast<std::int64_t>(count), config.hidden});
    auto [routing, report] =
        block.forward(rows, std::span(run.experts_out).subspan(first * d, count * d),
                      std::span(run.block_out).subspan(first * d, count * d));
    std::ranges::copy(routing.experts,
                      run.topk_experts.begin() + static_cast<std::ptrdiff_t>(first * k));
    std::ranges::copy(routing.gates,
                      run.topk_gates.begin() + static_cast<std::ptrdiff_t>(first * k));
    run.ranks[r] = std::move(report);
  };
  try {
    group.run(run_rank);
  } catch (Error& error) {
    name_router(error, checkpoint, layer, hidden);
    throw;
  }
  run.rows = reported_rows(run.ranks, group.group());
  run.representation = Representation::of(config.hidden, options.dtype);
  std::int64_t offset_entries = 0;
  for (const StepReport& rank : run.ranks) offset_entries += std::ssize(rank.slot_rows) + 1;
  run.bytes = byte_ledger(run.rows, run.representation, ranks, offset_entries);
  return run;
}

}  // namespace waybill
