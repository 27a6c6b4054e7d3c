// Declared layouts of expert tensors: gate and up interleaved or concatenated, axes in any order,
// non-square sizes. The reference here indexes the stored tensor directly.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/expert_layout.h"
#include "property/property.h"

namespace waybill {
namespace {

float at(const TensorView& view, std::int64_t i, std::int64_t j) {
  return view.as<float>()[i * view.strides[0] + j * view.strides[1]];
}

TEST(ExpertLayout, InterleavedIsNotConcatenated) {
  // Rows on disk g0, u0, g1, u1, of 3 columns.
  const std::vector<float> stored{0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15};
  const ExpertExtents extents{1, 3, 2};
  const auto views = [&](Axis layout) {
    ExpertWeights weights;
    set_views({Part::gate_up, "", {layout, Axis::hidden}}, extents, stored.data(), DType::f32,
              ExpertId(0), weights);
    return weights;
  };
  const ExpertWeights pairs = views(Axis::gate_up_pairs);
  EXPECT_EQ(at(pairs.gate, 1, 2), 5);
  EXPECT_EQ(at(pairs.up, 0, 0), 10);
  EXPECT_EQ(at(pairs.up, 1, 2), 15);
  const ExpertWeights blocks = views(Axis::gate_then_up);
  EXPECT_EQ(at(blocks.gate, 1, 2), 12);
  EXPECT_EQ(at(blocks.up, 0, 0), 3);
}

// An index along a stored axis, told as (expert, hidden, ff, is up).
struct Coordinates {
  std::int64_t expert = 0, hidden = 0, ff = 0;
  bool up = false;
};

Coordinates coordinates(const ExpertTensor& declared, const ExpertExtents& extents,
                        std::span<const std::int64_t> index) {
  Coordinates c;
  for (std::size_t d = 0; d < declared.axes.size(); ++d) {
    const std::int64_t i = index[d];
    switch (declared.axes[d]) {
      case Axis::one: break;
      case Axis::expert: c.expert = i; break;
      case Axis::hidden: c.hidden = i; break;
      case Axis::ff: c.ff = i; break;
      case Axis::gate_then_up: c.up = i >= extents.ff, c.ff = i % extents.ff; break;
      case Axis::gate_up_pairs: c.up = i % 2 == 1, c.ff = i / 2; break;
    }
  }
  return c;
}

float value(const Coordinates& c) {
  return static_cast<float>(((c.expert * 32 + c.hidden) * 32 + c.ff) * 2 + (c.up ? 1 : 0));
}

std::vector<float> fill(const ExpertTensor& declared, const ExpertExtents& extents) {
  const auto shape = stored_shape(declared.axes, extents);
  std::vector<float> stored(static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  std::vector<std::int64_t> index(shape.size(), 0);
  for (float& element : stored) {
    element = value(coordinates(declared, extents, index));
    for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
  return stored;
}

ExpertTensor draw_layout(Part part, Axis width, bool stacked) {
  ExpertTensor declared{part, "", {width, Axis::hidden}};
  if (stacked) declared.axes.push_back(Axis::expert);
  std::sort(declared.axes.begin(), declared.axes.end());
  const int turns = property::draw(0, 6);
  for (int i = 0; i < turns; ++i) {
    std::next_permutation(declared.axes.begin(), declared.axes.end());
  }
  return declared;
}

PROPERTY(ExpertLayout, ViewsEveryElementOfEveryExpertInAnyOrderOfAxes) {
  const ExpertExtents extents{property::draw(1, 5), property::draw(1, 8), property::draw(1, 8)};
  const bool stacked = property::draw_bool();
  const ExpertTensor gate_up = draw_layout(
      Part::gate_up, property::draw_one_of({Axis::gate_then_up, Axis::gate_up_pairs}), stacked);
  const ExpertTensor down = draw_layout(Part::down, Axis::ff, stacked);
  const std::vector<float> stored_gate_up = fill(gate_up, extents);
  const std::vector<float> stored_down = fill(down, extents);

  const std::int64_t experts = stacked ? extents.experts : 1;
  for (std::int64_t e = 0; e < experts; ++e) {
    ExpertWeights weights;
    const ExpertId id(static_cast<std::int32_t>(e));
    set_views(gate_up, extents, stored_gate_up.data(), DType::f32, id, weights);
    set_views(down, extents, stored_down.data(), DType::f32, id, weights);
    HOLDS(weights.ff() == extents.ff && weights.hidden() == extents.hidden);
    for (std::int64_t i = 0; i < extents.ff; ++i) {
      for (std::int64_t j = 0; j < extents.hidden; ++j) {
        HOLDS(at(weights.gate, i, j) == value({e, j, i, false}));
        HOLDS(at(weights.up, i, j) == value({e, j, i, true}));
        HOLDS(at(weights.down, j, i) == value({e, j, i, false}));
      }
    }
  }
}

// Copies one expert's gate and up from one layout to another through the views alone.
void convert(const ExpertTensor& from, const std::vector<float>& source, const ExpertTensor& to,
             std::vector<float>& target, const ExpertExtents& extents) {
  for (std::int32_t e = 0; e < extents.experts; ++e) {
    ExpertWeights read, write;
    set_views(from, extents, source.data(), DType::f32, ExpertId(e), read);
    set_views(to, extents, target.data(), DType::f32, ExpertId(e), write);
    for (std::int64_t i = 0; i < extents.ff; ++i) {
      for (std::int64_t j = 0; j < extents.hidden; ++j) {
        write.gate.as<float>()[i * write.gate.strides[0] + j * write.gate.strides[1]] =
            at(read.gate, i, j);
        write.up.as<float>()[i * write.up.strides[0] + j * write.up.strides[1]] = at(read.up, i, j);
      }
    }
  }
}

TEST(ExpertLayout, ARoundTripThroughAnotherLayoutIsExact) {
  const ExpertExtents extents{3, 5, 7};
  const ExpertTensor pairs{Part::gate_up, "", {Axis::expert, Axis::hidden, Axis::gate_up_pairs}};
  const ExpertTensor blocks{Part::gate_up, "", {Axis::expert, Axis::gate_then_up, Axis::hidden}};
  const std::vector<float> original = fill(pairs, extents);
  std::vector<float> concatenated(original.size()), back(original.size());
  convert(pairs, original, blocks, concatenated, extents);
  EXPECT_EQ(concatenated, fill(blocks, extents));
  convert(blocks, concatenated, pairs, back, extents);
  EXPECT_EQ(back, original);
}

TEST(ExpertLayout, BiasesFollowTheLayoutOfTheirProjection) {
  const ExpertExtents extents{2, 3, 2};
  const std::vector<float> pairs{0, 1, 2, 3, 10, 11, 12, 13};  // expert 0: g0 u0 g1 u1; expert 1
  ExpertWeights weights;
  set_views({Part::gate_up_bias, "", {Axis::expert, Axis::gate_up_pairs}}, extents, pairs.data(),
            DType::f32, ExpertId(1), weights);
  EXPECT_EQ(weights.gate_bias.as<float>()[weights.gate_bias.strides[0]], 12);
  EXPECT_EQ(weights.up_bias.as<float>()[0], 11);
  set_views({Part::down_bias, "", {Axis::expert, Axis::hidden}}, extents, pairs.data(), DType::f32,
            ExpertId(1), weights);
  EXPECT_EQ(weights.down_bias.as<float>()[0], 3);
  EXPECT_EQ(weights.down_bias.shape[0], 3);
}

}  // namespace
}  // namespace waybill
