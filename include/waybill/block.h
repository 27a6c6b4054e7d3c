// A whole MoE block of a checkpoint — router, routed experts over ranks, shared expert — and the
// run of one block over all ranks of a process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "waybill/checkpoint.h"
#include "waybill/comm.h"
#include "waybill/layer.h"
#include "waybill/ledger.h"
#include "waybill/registry.h"

namespace waybill {

// Loads experts of a checkpoint once, in an execution dtype, and shares them between the slots and
// ranks of one process. Thread-safe.
class ExpertStore {
 public:
  // `checkpoint` is borrowed and must outlive the store; `dtype` is f32 or bf16 (DtypeMismatch).
  ExpertStore(const Checkpoint& checkpoint, DType dtype);
  ~ExpertStore();

  std::shared_ptr<const ExpertBundle> get(LayerId layer, ExpertId expert);
  // The shared expert, or null when the family has none.
  std::shared_ptr<const ExpertBundle> shared(LayerId layer);
  // Forgets a layer's experts; those still in use stay with their users.
  void drop(LayerId layer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct BlockOptions {
  DType dtype = DType::f32;
  Selector selector = Selector::first;
  bool dedup = false;
  Checks checks = Checks::counts;
};

// InvalidValue when one row per (token, destination rank) is asked for where gates multiply the
// experts' input and a token has several: their rows differ, so one copy can't serve them all.
void check_dedup(const ModelConfig& model, bool dedup);

// One rank's end of one MoE block.
class MoeBlock {
 public:
  // Everything but `layer` and `options` is borrowed and must outlive the block. The errors of
  // check_dedup, of MoeLayer and of the checkpoint.
  MoeBlock(const Checkpoint& checkpoint, LayerId layer, const BlockOptions& options,
           ExpertStore& store, Communicator& comm, PlacementRegistry& registry,
           const Topology& topology, ThreadPool* pool = nullptr);
  ~MoeBlock();

  struct Output {
    RoutingResult routing;
    StepReport report;
  };
  // `hidden` [T_l, d] f32 rows at the origin; the router reads them as they are, the experts read
  // them rounded to the block's dtype. `experts_out` and `block_out` [T_l, d] f32 receive the
  // weighted sum of the routed experts and, shared expert added last, the whole block; either may
  // be empty. ShapeMismatch, DtypeMismatch or DeviceUnavailable (tensor named) for others; the
  // errors of route(), Routes and MoeLayer::forward(). Any of them aborts the group.
  Output forward(const TensorView& hidden, std::span<float> experts_out,
                 std::span<float> block_out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One block over every rank of a local group.
struct BlockRun {
  std::vector<float> experts_out;          // [T, d], global token order
  std::vector<float> block_out;            // [T, d]
  std::vector<std::int32_t> topk_experts;  // [T, k]
  std::vector<float> topk_gates;           // [T, k]
  std::vector<StepReport> ranks;           // by rank
  RowLedger rows;
  Representation representation;
  ByteLedger bytes;
};

// Tokens [0, T) in contiguous blocks of ranks, the first T mod P one longer: [P+1] first tokens.
std::vector<std::int64_t> token_offsets(std::int64_t tokens, std::int64_t ranks);

// Tokens [T] of `hidden` [T, d] f32 are cut into those blocks, or into `tokens_per_rank`
// (RouteCountMismatch when its sum isn't T). RankCountMismatch when group, topology and placement
// aren't of the same ranks 0 to P-1.
BlockRun run_block(const Checkpoint& checkpoint, LayerId layer, const BlockOptions& options,
                   ExpertStore& store, LocalGroup& group, PlacementRegistry& registry,
                   const Topology& topology, std::span<const float> hidden,
                   std::span<const std::int64_t> tokens_per_rank = {});

// ParameterDigestMismatch, with layer, slot and expert, where a slot of the rank states a digest of
// 64 hexadecimal digits that isn't parameter_digest() of the checkpoint's expert. Reads those
// experts' weights whole; run_block() asks it under Checks::full.
void check_parameter_digests(const Checkpoint& checkpoint, LayerId layer,
                             const Placement& placement, Rank rank);

// What the router should make of one row, in double precision, straight from its definition and the
// checkpoint's own tensors. For checks; slow.
struct DirectRouting {
  std::vector<std::int32_t> experts;  // [k], the best first
  std::vector<double> gates;          // [k]
  double uncertainty = 0;             // of a logit in FP32
  bool tie = false;  // a score that isn't chosen can't be told from one that is in FP32
};
DirectRouting route_directly(const Checkpoint& checkpoint, LayerId layer,
                             std::span<const float> hidden_row);

enum class RoutingVerdict : std::uint8_t { right, tied, other_experts, other_gates };
// Experts in any order, gates to 5e-6 of the largest and what the logits' uncertainty adds. Another
// choice, or other gates, than the direct one is `tied` where that one is as good.
RoutingVerdict judge(const DirectRouting& direct, std::span<const std::int32_t> topk_experts,
                     std::span<const float> topk_gates);

// What one token's block should give, in double precision, straight from the checkpoint's own
// tensors: no plan, no exchange, no kernels. For checks; slow.
struct DirectRow {
  std::vector<double> experts_out, block_out;  // [d]
};
DirectRow evaluate_directly(const Checkpoint& checkpoint, LayerId layer,
                            std::span<const float> hidden_row,
                            std::span<const std::int32_t> topk_experts,
                            std::span<const float> topk_gates);

}  // namespace waybill
