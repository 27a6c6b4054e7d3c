// What `run` found, before it is printed.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accuracy.h"
#include "step_options.h"
#include "waybill/checkpoint.h"
#include "waybill/error.h"
#include "waybill/layer.h"
#include "waybill/ledger.h"

namespace waybill::cli {

struct RunOptions {
  StepOptions step;
  bool check = false;
  std::int64_t check_tokens = 0;  // 0: as many as take seconds
  std::string golden;
};

// One comparison: `tokens` rows of experts_out and block_out, and the router's choice for them,
// against a reference. A recording has no gates and tells of no ties.
struct Comparison {
  std::int64_t tokens = 0;
  Accuracy experts_out, block_out;
  std::int64_t topk_differs = 0;  // tokens whose chosen experts differ
  std::int64_t gates_differ = 0;  // tokens whose gates differ
  std::int64_t tied_choices = 0;  // tokens whose choice differs among equals: no fault

  double max_rel_error() const;  // the larger of the two tensors'
  double rel_frobenius() const;
};

// What must hold of every comparison: f32 by the largest difference, bf16 by the Frobenius norm.
struct Tolerance {
  DType dtype = DType::f32;

  double limit() const { return dtype == DType::bf16 ? 1e-2 : 5e-6; }
  std::string_view measure() const {
    return dtype == DType::bf16 ? "rel_frobenius" : "max_rel_error";
  }
  double of(const Accuracy& accuracy) const {
    return dtype == DType::bf16 ? accuracy.rel_frobenius() : accuracy.max_rel_error();
  }
};

struct LayerRun {
  LayerId layer;
  RowLedger rows;
  ByteLedger bytes;
  LiveLedger live;
  std::vector<std::int64_t> rank_rows;  // route rows executed, by rank
  StepReport::Times slowest;            // of the ranks, phase by phase
  LiveBytes reserved;                   // largest workspace of a rank
  std::optional<Comparison> check, golden;

  double busiest_over_mean() const;
};

struct RunResult {
  ModelConfig model;
  std::vector<std::int64_t> rank_slots;  // of the first layer
  std::string placement;
  std::vector<std::int64_t> rank_tokens;
  std::vector<std::int64_t> peer_order;
  std::vector<std::string> unused_tensors;  // of MoE blocks in the files, read by nobody
  std::string kernels;                      // instruction set of the CPU kernels
  std::vector<LayerRun> layers;
  std::string output_sha256;
  MeasuredBytes peak_resident;
  std::string golden_file;
  std::vector<Error> violations;

  // Largest over all comparisons; none when nothing was compared.
  std::optional<double> max_rel_error() const;
  std::optional<double> rel_frobenius() const;
};

void print_text(const RunOptions& options, const RunResult& result);
void print_json(const RunOptions& options, const RunResult& result);

}  // namespace waybill::cli
