// One expert under the names and layouts of every family: the same inventory from all of them.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "io/safetensors_set.h"
#include "io/safetensors_writer.h"
#include "model/expert_layout.h"
#include "model/family.h"
#include "model/load_layers.h"
#include "support/temporary_folder.h"

namespace waybill {
namespace {

using testing::TemporaryFolder;

constexpr std::int32_t layers = 2, experts = 3, hidden = 4, ff = 5;

ModelConfig small_model() {
  ModelConfig model;
  model.layers = layers;
  model.moe_layers = {LayerId(0), LayerId(1)};
  model.hidden = hidden;
  model.ff = ff;
  model.experts = experts;
  model.topk = 1;
  return model;
}

// What the logical weight is, whatever file it is in.
enum Projection { gate, up, down };
float weight(std::int32_t layer, std::int32_t expert, Projection projection, std::int64_t h,
             std::int64_t f) {
  return static_cast<float>((((layer * experts + expert) * 3 + projection) * hidden + h) * ff + f);
}

void fill(const TensorView& view, auto value) {
  for (std::int64_t i = 0; i < view.shape[0]; ++i) {
    for (std::int64_t j = 0; j < view.shape[1]; ++j) {
      view.as<float>()[i * view.strides[0] + j * view.strides[1]] = value(i, j);
    }
  }
}

void expect(const TensorView& view, auto value) {
  ASSERT_EQ(view.dtype, DType::f32);
  for (std::int64_t i = 0; i < view.shape[0]; ++i) {
    for (std::int64_t j = 0; j < view.shape[1]; ++j) {
      ASSERT_EQ(view.as<float>()[i * view.strides[0] + j * view.strides[1]], value(i, j));
    }
  }
}

// Applies `each(view, value)` to the three projections of one expert.
void for_each_projection(const ExpertWeights& weights, std::int32_t layer, std::int32_t expert,
                         auto each) {
  const auto ff_by_hidden = [=](Projection projection) {
    return [=](std::int64_t f, std::int64_t h) { return weight(layer, expert, projection, h, f); };
  };
  if (weights.gate.data) each(weights.gate, ff_by_hidden(gate));
  if (weights.up.data) each(weights.up, ff_by_hidden(up));
  if (weights.down.data) {
    each(weights.down,
         [=](std::int64_t h, std::int64_t f) { return weight(layer, expert, down, h, f); });
  }
}

// The logical weights as that family stores them, in f32; biases and router are zero.
std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> stored(
    const BlockLayout& layout) {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) -> float* {
    const auto elements =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    return tensors
        .try_emplace(name, std::move(shape), std::vector<float>(static_cast<std::size_t>(elements)))
        .first->second.second.data();
  };
  const ExpertExtents extents{experts, hidden, ff};
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const std::string block = block_path(layout.path, LayerId(layer)) + ".";
    const RouterTensors& router = layout.router;
    add(block + std::string(router.weight), {experts, hidden});
    if (!router.bias.empty()) add(block + std::string(router.bias), {experts});
    if (!router.selection_bias.empty()) {
      add(block + std::string(router.selection_bias),
          stored_shape(router.selection_bias_axes, extents));
    }
    for (const ExpertTensor& declared : layout.experts) {
      for (std::int32_t expert = 0; expert < experts; ++expert) {
        float* data = add(block + expert_name(declared.name, ExpertId(expert)),
                          stored_shape(declared.axes, extents));
        ExpertWeights views;
        set_views(declared, extents, data, DType::f32, ExpertId(expert), views);
        for_each_projection(views, layer, expert,
                            [](auto& view, auto value) { fill(view, value); });
      }
    }
  }
  return tensors;
}

struct Named {
  Family family;
  std::size_t layout;
};

std::vector<Named> every_layout() {
  std::vector<Named> layouts;
  for (const std::string_view name : family_names()) {
    const Family family = find_family(name, "");
    for (std::size_t i = 0; i < family.layouts.size(); ++i) layouts.push_back({family, i});
  }
  return layouts;
}

class OneExpertUnderManyNames : public ::testing::TestWithParam<Named> {};

TEST_P(OneExpertUnderManyNames, GivesOneInventory) {
  const auto& [family, layout] = GetParam();
  const auto tensors = stored(family.layouts[layout]);
  const TemporaryFolder folder;
  std::vector<SafetensorsWriter::Tensor> declared;
  for (const auto& [name, tensor] : tensors) declared.push_back({name, DType::f32, tensor.first});
  SafetensorsWriter writer(folder.file("model.safetensors"), declared);
  for (const auto& tensor : writer.tensors()) {
    writer.write(std::as_bytes(std::span(tensors.at(tensor.name).second)));
  }
  writer.finish();

  const SafetensorsSet files = SafetensorsSet::open(folder.path());
  Faults first;
  const LoadedLayers loaded = load_layers(family, small_model(), files, first);
  EXPECT_EQ(loaded.path, family.layouts[layout].path);
  EXPECT_TRUE(loaded.inventory.missing.empty());
  EXPECT_TRUE(loaded.inventory.unused.empty());
  ASSERT_EQ(loaded.layers.size(), static_cast<std::size_t>(layers));
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const LoadedLayer& moe = loaded.layers[static_cast<std::size_t>(layer)];
    ASSERT_EQ(moe.experts.size(), static_cast<std::size_t>(experts));
    for (std::int32_t expert = 0; expert < experts; ++expert) {
      const ExpertWeights& weights = moe.experts[static_cast<std::size_t>(expert)];
      EXPECT_EQ(weights.ff(), ff);
      EXPECT_EQ(weights.hidden(), hidden);
      int projections = 0;
      for_each_projection(weights, layer, expert, [&](auto& view, auto value) {
        ++projections;
        expect(view, value);
      });
      EXPECT_EQ(projections, 3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, OneExpertUnderManyNames, ::testing::ValuesIn(every_layout()),
                         [](const auto& named) {
                           return std::string(named.param.family.name) +
                                  (named.param.layout == 0 ? "" : "_in_memory");
                         });

}  // namespace
}  // namespace waybill
