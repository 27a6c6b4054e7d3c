// New checkpoints of any family and size with random weights: for trying out shapes, for tests, for
// measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace waybill {

struct RandomCheckpoint {
  std::string family;
  std::int32_t hidden = 0;   // d
  std::int32_t ff = 0;       // of a routed expert; shared experts follow the family's custom
  std::int32_t experts = 0;  // E
  std::int32_t topk = 0;     // k
  std::int32_t layers = 0;   // all of them with experts
  std::int32_t shards = 1;   // 1: model.safetensors; more: shards of layers in order, and an index
  std::uint64_t seed = 0;
};

struct WrittenCheckpoint {
  std::size_t files = 0;  // config.json and index included
  std::size_t tensors = 0;
  std::uint64_t tensor_bytes = 0;
};

// Writes config.json and the tensors of the MoE blocks, and nothing else of a model, as the
// family's published checkpoints hold them, in bf16. A weight's values follow from the seed and the
// tensor's name alone, of a size that keeps a layer's output near its input's. `begin_file`, when
// given, hears the 1-based number of each file of weights before it is written. `directory` is
// made, or is empty. UnknownFamily, InvalidValue and TopKExceedsExperts as Checkpoint::open has
// them for such a config.json; InvalidValue for shards without a tensor; FileUnwritable, also when
// `directory` isn't empty or its file system lacks room. config.json comes last: without it there
// is no checkpoint.
WrittenCheckpoint write_random_checkpoint(const RandomCheckpoint& checkpoint,
                                          const std::string& directory,
                                          const std::function<void(std::int32_t)>& begin_file = {});

}  // namespace waybill
