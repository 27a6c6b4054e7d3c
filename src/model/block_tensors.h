// The tensors that files of a layout hold for a model's MoE blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/family.h"
#include "waybill/checkpoint.h"

namespace waybill {

struct BlockTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t inputs = 0;  // that an output sums over; 0: a bias
};

// Layers ascending; in a layer the router, then the experts one after another, then the shared one.
std::vector<BlockTensor> block_tensors(const BlockLayout& layout, const ModelConfig& model);

}  // namespace waybill
