// Comparing a run with references: a direct evaluation in double, and a recording.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "golden.h"
#include "run_result.h"
#include "waybill/block.h"
#include "waybill/thread_pool.h"

namespace waybill::cli {

// How many tokens of each of `layers` layers --check evaluates: what was asked for, else as many
// as take seconds, at least one.
std::int64_t tokens_to_check(const RunOptions& options, const ModelConfig& model,
                             std::size_t layers);

// Evaluates `count` tokens of `hidden` [T, d], evenly spread: the router by itself, then experts
// and block with the experts and gates that the run chose.
Comparison compare_directly(const Checkpoint& checkpoint, LayerId layer, const BlockRun& run,
                            std::span<const float> hidden, std::int64_t count, ThreadPool& pool);

Comparison compare_recorded(const ModelConfig& model, const RecordedBlock& recorded,
                            const BlockRun& run);

// Adds a CombineMismatch for each tensor out of tolerance, gates included, and a
// LogicalExpertMismatch when chosen experts differ. `against` names the reference.
void collect_violations(LayerId layer, std::string_view against, const Comparison& comparison,
                        DType dtype, std::vector<Error>& violations);

}  // namespace waybill::cli
