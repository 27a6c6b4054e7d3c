#include "model/expert_layout.h"

#include <cstddef>
#include <initializer_list>

namespace waybill {
namespace {

std::int64_t extent(Axis axis, const ExpertExtents& extents) {
  switch (axis) {
    case Axis::one: return 1;
    case Axis::expert: return extents.experts;
    case Axis::hidden: return extents.hidden;
    case Axis::ff: return extents.ff;
    case Axis::gate_then_up:
    case Axis::gate_up_pairs: return 2 * extents.ff;
  }
  return 0;
}

enum class Half : std::uint8_t { gate, up };

struct Dimension {
  std::int64_t extent = 0, step = 0;  // elements
};

// Where one expert's projection begins and how it runs. A tensor that holds one projection alone
// has the same walk for both halves.
struct Walk {
  std::int64_t begin = 0;
  Dimension hidden, ff;
};

Walk walk(const ExpertTensor& declared, const ExpertExtents& extents, ExpertId expert, Half half) {
  const std::int64_t skipped = half == Half::up ? 1 : 0;
  Walk walk;
  std::int64_t step = 1;
  for (auto axis = declared.axes.rbegin(); axis != declared.axes.rend(); ++axis) {
    switch (*axis) {
      case Axis::one: break;
      case Axis::expert: walk.begin += expert.value * step; break;
      case Axis::hidden: walk.hidden = {extents.hidden, step}; break;
      case Axis::ff: walk.ff = {extents.ff, step}; break;
      case Axis::gate_then_up:
        walk.begin += skipped * extents.ff * step;
        walk.ff = {extents.ff, step};
        break;
      case Axis::gate_up_pairs:
        walk.begin += skipped * step;
        walk.ff = {extents.ff, 2 * step};
        break;
    }
    step *= extent(*axis, extents);
  }
  return walk;
}

}  // namespace

std::vector<std::int64_t> stored_shape(std::span<const Axis> axes, const ExpertExtents& extents) {
  std::vector<std::int64_t> shape;
  for (const Axis axis : axes) shape.push_back(extent(axis, extents));
  return shape;
}

void set_views(const ExpertTensor& declared, const ExpertExtents& extents, const void* data,
               DType dtype, ExpertId expert, ExpertWeights& weights) {
  const Walk gate = walk(declared, extents, expert, Half::gate);
  const Walk up = walk(declared, extents, expert, Half::up);
  const auto view = [&](const Walk& walk, std::initializer_list<Dimension> dimensions) {
    const std::byte* begin =
        static_cast<const std::byte*>(data) + static_cast<std::size_t>(walk.begin) * size_of(dtype);
    TensorView strided = TensorView::contiguous(begin, dtype, {});
    for (const auto& [length, step] : dimensions) {
      const auto d = static_cast<std::size_t>(strided.rank++);
      strided.shape[d] = length;
      strided.strides[d] = step;
    }
    return strided;
  };

  switch (declared.part) {
    case Part::gate: weights.gate = view(gate, {gate.ff, gate.hidden}); break;
    case Part::up: weights.up = view(up, {up.ff, up.hidden}); break;
    case Part::gate_up:
      weights.gate = view(gate, {gate.ff, gate.hidden});
      weights.up = view(up, {up.ff, up.hidden});
      break;
    case Part::down: weights.down = view(gate, {gate.hidden, gate.ff}); break;
    case Part::gate_bias: weights.gate_bias = view(gate, {gate.ff}); break;
    case Part::up_bias: weights.up_bias = view(up, {up.ff}); break;
    case Part::gate_up_bias:
      weights.gate_bias = view(gate, {gate.ff});
      weights.up_bias = view(up, {up.ff});
      break;
    case Part::down_bias: weights.down_bias = view(gate, {gate.hidden}); break;
  }
}

}  // namespace waybill
