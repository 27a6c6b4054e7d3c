// What the model's own library computed for some MoE blocks, recorded in a safetensors file:
// <block>.block_in, .experts_in.arg1 (top-k ids), .experts_out and .block_out. Where gates multiply
// the experts' input, the library runs every expert on every token and knows no ids: .router_out0
// has the gates of all experts [T, E], 0 for those not chosen, and .experts_out is [E * T, d].
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "waybill/checkpoint.h"

namespace waybill::cli {

struct RecordedBlock {
  std::vector<float> block_in;     // [T, d]
  std::vector<std::int64_t> topk;  // [T, k]
  std::vector<float> experts_out;  // [T, d]
  std::vector<float> block_out;    // [T, d]

  std::int64_t tokens(std::int64_t hidden) const {
    return static_cast<std::int64_t>(block_in.size()) / hidden;
  }
};

class Golden {
 public:
  // `path` is the file, its golden.json sibling, or their directory.
  static Golden open(const std::string& path);
  Golden(Golden&&) noexcept;
  Golden& operator=(Golden&&) noexcept;
  ~Golden();

  const std::string& file() const;
  bool has(const std::string& block) const;
  // Those whose block_in is recorded.
  std::set<std::string> blocks() const;
  // MissingTensor, DtypeMismatch, ShapeMismatch (file and tensor named) when the recording doesn't
  // fit the model; InvalidValue for rows that no block can run on.
  RecordedBlock block(const std::string& name, const ModelConfig& model) const;

 private:
  struct State;
  explicit Golden(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace waybill::cli
