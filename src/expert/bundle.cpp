#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "expert/packed.h"
#include "waybill/error.h"

namespace waybill {
namespace {

void check_dtype(const TensorView& view, std::string_view tensor) {
  if (view.device.kind != DeviceKind::cpu) {
    throw Error(Code::DeviceUnavailable)
        .at("tensor", tensor)
        .expected("cpu")
        .found(name(view.device));
  }
  if (view.dtype != DType::f32 && view.dtype != DType::bf16 && view.dtype != DType::f16) {
    throw Error(Code::DtypeMismatch)
        .at("tensor", tensor)
        .expected("f32, bf16 or f16")
        .found(view.dtype);
  }
}

void check_shape(const TensorView& view, std::string_view tensor,
                 std::initializer_list<std::int64_t> expected) {
  const bool same = std::cmp_equal(view.rank, expected.size()) &&
                    std::equal(expected.begin(), expected.end(), view.shape.begin());
  if (same) return;
  throw Error(Code::ShapeMismatch)
      .at("tensor", tensor)
      .expected(shape_text(std::span(expected.begin(), expected.size())))
      .found(shape_text(view));
}

void check(const ExpertWeights& weights, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::bf16) {
    throw Error(Code::DtypeMismatch)
        .at("what", "execution dtype")
        .expected("f32 or bf16")
        .found(dtype);
  }
  const TensorView& gate = weights.gate;
  if (gate.rank != 2 || gate.elements() <= 0) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", "gate")
        .expected("[ff, d] of at least one element")
        .found(shape_text(gate));
  }
  const std::int64_t ff = weights.ff();
  const std::int64_t d = weights.hidden();
  check_shape(weights.up, "up", {ff, d});
  check_shape(weights.down, "down", {d, ff});
  check_dtype(gate, "gate");
  check_dtype(weights.up, "up");
  check_dtype(weights.down, "down");
  const auto check_bias = [](const TensorView& bias, std::string_view tensor, std::int64_t extent) {
    if (bias.data == nullptr) return;
    check_shape(bias, tensor, {extent});
    check_dtype(bias, tensor);
  };
  check_bias(weights.gate_bias, "gate_bias", ff);
  check_bias(weights.up_bias, "up_bias", ff);
  check_bias(weights.down_bias, "down_bias", d);
}

std::size_t panel_bytes(const PanelShape& shape, DType dtype) {
  return static_cast<std::size_t>(shape.count * shape.depth * panel_columns) * size_of(dtype);
}

std::size_t bias_bytes(const PanelShape& shape) {
  return static_cast<std::size_t>(shape.count * panel_columns) * sizeof(float);
}

// steps: [depth][32], lo then hi, already rounded to `dtype`; in bf16, lo becomes the lower half of
// each 32-bit word.
void store_steps(const float* steps, std::int64_t depth, DType dtype, std::byte* out) {
  if (dtype == DType::f32) {
    std::memcpy(out, steps, static_cast<std::size_t>(depth * panel_columns) * sizeof(float));
    return;
  }
  auto* words = reinterpret_cast<std::uint32_t*>(out);
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* step = steps + k * panel_columns;
    for (std::int64_t lane = 0; lane < panel_lanes; ++lane) {
      const auto lo = std::bit_cast<std::uint32_t>(step[lane]);
      const auto hi = std::bit_cast<std::uint32_t>(step[panel_lanes + lane]);
      words[k * panel_lanes + lane] = lo >> 16 | (hi & 0xFFFF0000U);
    }
  }
}

void pack_panels(const ExpertWeights& weights, Projection projection, const PanelShape& shape,
                 DType dtype, std::byte* out) {
  constexpr std::int64_t steps_at_once = 256;
  alignas(64) std::array<float, steps_at_once * panel_columns> steps;
  for (std::int64_t panel = 0; panel < shape.count; ++panel) {
    for (std::int64_t k = 0; k < shape.depth; k += steps_at_once) {
      const std::int64_t depth = std::min(steps_at_once, shape.depth - k);
      read_panel(weights, projection, panel, k, depth, dtype, steps.data());
      store_steps(steps.data(), depth, dtype, out);
      out += static_cast<std::size_t>(depth * panel_columns) * size_of(dtype);
    }
  }
}

float* pack_bias(const ExpertWeights& weights, Projection projection, const PanelShape& shape,
                 Workspace& memory) {
  auto* bias = static_cast<float*>(memory.take(bias_bytes(shape)));
  for (std::int64_t panel = 0; panel < shape.count; ++panel) {
    read_panel_bias(weights, projection, panel, bias + panel * panel_columns);
  }
  return bias;
}

}  // namespace

std::shared_ptr<const ExpertBundle> ExpertBundle::pack(const ExpertWeights& weights, DType dtype) {
  check(weights, dtype);
  const PanelShape gate_up = panel_shape(weights.hidden(), weights.ff(), Projection::gate_up);
  const PanelShape down = panel_shape(weights.hidden(), weights.ff(), Projection::down);
  const bool gate_up_bias = weights.gate_bias.data != nullptr || weights.up_bias.data != nullptr;
  const bool down_bias = weights.down_bias.data != nullptr;
  const std::size_t bytes = Workspace::padded(panel_bytes(gate_up, dtype)) +
                            Workspace::padded(panel_bytes(down, dtype)) +
                            (gate_up_bias ? Workspace::padded(bias_bytes(gate_up)) : 0) +
                            (down_bias ? Workspace::padded(bias_bytes(down)) : 0);

  auto packed = std::make_shared<Packed>(Packed{Workspace({}, bytes), {}, {}, {}, {}});
  Workspace& memory = packed->memory;
  packed->gate_up = static_cast<std::byte*>(memory.take(panel_bytes(gate_up, dtype)));
  packed->down = static_cast<std::byte*>(memory.take(panel_bytes(down, dtype)));
  pack_panels(weights, Projection::gate_up, gate_up, dtype, packed->gate_up);
  pack_panels(weights, Projection::down, down, dtype, packed->down);
  if (gate_up_bias) packed->gate_up_bias = pack_bias(weights, Projection::gate_up, gate_up, memory);
  if (down_bias) packed->down_bias = pack_bias(weights, Projection::down, down, memory);

  std::shared_ptr<ExpertBundle> bundle(new ExpertBundle);
  bundle->hidden_ = weights.hidden();
  bundle->ff_ = weights.ff();
  bundle->dtype_ = dtype;
  bundle->packed_ = std::move(packed);
  return bundle;
}

std::shared_ptr<const ExpertBundle> ExpertBundle::borrow(const ExpertWeights& weights, DType dtype,
                                                         std::shared_ptr<const void> keep_alive) {
  check(weights, dtype);
  std::shared_ptr<ExpertBundle> bundle(new ExpertBundle);
  bundle->hidden_ = weights.hidden();
  bundle->ff_ = weights.ff();
  bundle->dtype_ = dtype;
  bundle->weights_ = weights;
  bundle->keep_alive_ = std::move(keep_alive);
  return bundle;
}

std::size_t ExpertBundle::resident_bytes() const {
  return packed_ == nullptr ? 0 : packed_->memory.capacity();
}

}  // namespace waybill
