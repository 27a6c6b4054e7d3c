// Experts and the runners that apply them to rows. A row's result depends on that row and its
// expert alone: every output is one ascending FP32 chain over K, whatever the batch, tile or thread
// count. Source: reference text 0x04, docs/arithmetic.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "waybill/device.h"
#include "waybill/ids.h"
#include "waybill/tensor.h"
#include "waybill/thread_pool.h"

namespace waybill {

enum class ActivationKind : std::uint8_t {
  swiglu,          // silu(gate) * up
  swiglu_clamped,  // gpt-oss: gate ≤ limit, |up| ≤ limit; (up + 1) * gate * sigmoid(alpha * gate)
};

struct Activation {
  ActivationKind kind = ActivationKind::swiglu;
  float alpha = 1.702F;
  float limit = 7.0F;
};

// A gated FFN as its owner stores it: y = down · act(gate · x, up · x). Views may be strided, e.g.
// transposed [in, out] or interleaved gate and up; biases are optional (data == nullptr).
struct ExpertWeights {
  TensorView gate;                // [ff, d]
  TensorView up;                  // [ff, d]
  TensorView down;                // [d, ff]
  TensorView gate_bias, up_bias;  // [ff]
  TensorView down_bias;           // [d]

  std::int64_t hidden() const { return gate.shape[1]; }
  std::int64_t ff() const { return gate.shape[0]; }
};

// SHA-256 over the logical weight values (gate, up, down, biases; row-major, little-endian, in
// their stored dtype), whatever the strides: the parameter digest of a replica.
std::string parameter_digest(const ExpertWeights& weights);

// One expert ready for the CPU kernels. Immutable; replicas on one process share it.
class ExpertBundle {
 public:
  // Packs into kernel order in `dtype` (f32 or bf16), owning the copy. ShapeMismatch when gate, up,
  // down and biases don't fit; DtypeMismatch for other dtypes; narrowing f32 → bf16 rounds to
  // nearest even.
  static std::shared_ptr<const ExpertBundle> pack(const ExpertWeights& weights, DType dtype);
  // Uses the owner's memory in place, in its stored dtype (f32, bf16 or f16), while `keep_alive`
  // lives; a panel is repacked, block by block, as it is used. Same errors and same bits as pack().
  static std::shared_ptr<const ExpertBundle> borrow(const ExpertWeights& weights, DType dtype,
                                                    std::shared_ptr<const void> keep_alive = {});

  std::int64_t hidden() const { return hidden_; }
  std::int64_t ff() const { return ff_; }
  DType dtype() const { return dtype_; }  // execution dtype
  bool in_place() const { return packed_ == nullptr; }
  std::size_t resident_bytes() const;  // owned by the bundle

  struct Packed;
  const Packed* packed() const { return packed_.get(); }
  const ExpertWeights& weights() const { return weights_; }

 private:
  ExpertBundle() = default;
  std::int64_t hidden_ = 0, ff_ = 0;
  DType dtype_ = DType::f32;
  ExpertWeights weights_;  // in place only
  std::shared_ptr<const void> keep_alive_;
  std::shared_ptr<const Packed> packed_;
};

// Rows of one rank's local slots. Segment q holds expert rows [offsets[q], offsets[q+1]).
struct RunnerInput {
  TensorView input;                       // [N, d] rows in the execution dtype
  std::span<const std::int32_t> gather;   // [rows] input row of each expert row; empty: identity
  TensorView output;                      // [M, d] rows in the return dtype
  std::span<const std::int32_t> scatter;  // [rows] output row of each expert row; empty: identity
  std::span<const std::int32_t> offsets;  // [Q_local+1] rows, exclusive prefix sums
  std::span<const ExpertBundle* const> experts;  // [Q_local], by slot; empty segments keep theirs
  Activation activation;
};

// A way to execute the segments. All runners give the same bits.
class ExpertRunner {
 public:
  virtual ~ExpertRunner() = default;
  virtual std::string_view name() const = 0;
  // Bytes that run() takes from the workspace.
  virtual std::size_t workspace_bytes(const RunnerInput& input) const = 0;
  // Writes every output row once. The spans, the workspace and the pool stay valid until the event.
  // Elements of a row are adjacent; rows may lie further apart. Input and output dtype: f32 or
  // bf16; output rows are rounded to the output dtype. Throws ShapeMismatch, DtypeMismatch,
  // SegmentOffsetMismatch, DescriptorSlotMismatch (offsets and experts of different length).
  virtual Event run(const RunnerInput& input, Workspace& workspace, const Stream& stream,
                    ThreadPool* pool = nullptr) = 0;
};

// Exact segments, one problem per non-empty slot (0x04C).
std::unique_ptr<ExpertRunner> make_grouped_runner();

// The instruction set that the CPU kernels dispatch to on this machine, e.g. "AVX3_DL"; ranks of
// one group must agree on it (docs/arithmetic.md).
std::string_view cpu_kernel_target();

// y = down · act(gate · x, up · x) in double precision, for checks. x: [hidden], y: [hidden].
void evaluate_expert(const ExpertWeights& weights, const Activation& activation,
                     std::span<const double> x, std::span<double> y);

// Reads any stored element as double. `index` counts along the view's strides.
double element(const TensorView& view, std::int64_t i, std::int64_t j = 0);

}  // namespace waybill
