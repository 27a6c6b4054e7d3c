// The grouped products and whole layers against the tensor core model, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "cuda/gpu.h"
#include "cuda/layer_case.h"
#include "cuda/tensor_core_model.h"
#include "expert/cuda/activation.h"
#include "expert/cuda/grouped_gemm.h"
#include "expert/cuda/hopper_gemm.h"

namespace waybill {
namespace {

using testing::bits;
using testing::gpu;
using testing::on_gpu;

enum class Values { normal, wide, cancelling, subnormal, with_zeros };

std::vector<std::uint16_t> values(Values kind, std::size_t size, std::mt19937& random) {
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto with_exponent = [&](int low, int high) {
    return static_cast<std::uint16_t>((between(0, 1) << 15) | (between(low, high) << 7) |
                                      between(0, 127));
  };
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> out(size);
  for (std::uint16_t& x : out) {
    switch (kind) {
      case Values::normal: x = bits(__nv_bfloat16(normal(random))); break;
      case Values::wide: x = with_exponent(97, 150); break;
      case Values::cancelling: x = with_exponent(126, 127); break;
      case Values::subnormal: x = with_exponent(0, 70); break;
      case Values::with_zeros: x = between(0, 2) == 0 ? with_exponent(90, 140) : 0; break;
    }
  }
  return out;
}

struct Extent {
  std::vector<std::int32_t> offsets;
  std::int32_t k, n;
};

std::size_t padded(std::int32_t k) { return static_cast<std::size_t>((k + 7) / 8 * 8); }

enum class Kernel { few, some, many, narrow, wide };

bool is_hopper(Kernel kernel) { return kernel == Kernel::narrow || kernel == Kernel::wide; }

// False where the kernel can't run.
bool launch(const GroupedGemm& gemm, Kernel kernel, const std::vector<SlotWeights>& table,
            std::int64_t input_rows, const Stream& stream) {
  const std::int64_t rows = 1000;
  if (!is_hopper(kernel)) {
    prepare_grouped_gemm();
    launch_down(gemm, static_cast<TileRows>(kernel), rows, cuda_stream(stream));
    return true;
  }
  const auto maps =
      map_weights(table, gemm.n, gemm.k, (gemm.n + 7) / 8 * 8, gemm.weight_stride, gpu);
  if (!maps || gemm.n % 8 != 0 || !prepare_hopper_gemm()) return false;
  if (kernel == Kernel::narrow) {
    launch_narrow_down(gemm, maps->down, rows, 3, cuda_stream(stream));
  } else {
    const auto input = map_rows(gemm.input, input_rows, gemm.k, gemm.input_stride, gpu);
    launch_wide_down(gemm, maps->down, input.value(), rows, 5, cuda_stream(stream));
  }
  return true;
}

// Runs `down` in FP32 and compares every output with the model; false where the kernel can't run.
bool expect_model(const Extent& extent, Values kind, Kernel kernel, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto rows = static_cast<std::size_t>(extent.offsets.back());
  const std::size_t slots = extent.offsets.size() - 1;
  const std::size_t stride = padded(extent.k);
  const auto n = static_cast<std::size_t>(extent.n);
  const auto a = values(kind, rows * stride, random);
  const auto b = values(kind, slots * n * stride, random);
  const auto a_gpu = on_gpu(a), b_gpu = on_gpu(b);
  std::vector<SlotWeights> table(slots);
  for (std::size_t q = 0; q < slots; ++q) {
    table[q].gate = table[q].down =
        reinterpret_cast<const __nv_bfloat16*>(b_gpu.data()) + q * n * stride;
    table[q].up = table[q].gate + 8;
  }
  const auto table_gpu = on_gpu(table);
  const auto offsets = on_gpu(extent.offsets);
  const auto output = on_gpu(std::vector<float>(rows * n, -1.0F));
  const auto claimed = on_gpu(std::vector<std::uint32_t>{0});
  GroupedGemm gemm{};
  gemm.claimed = claimed.data();
  gemm.input = reinterpret_cast<const __nv_bfloat16*>(a_gpu.data());
  gemm.input_stride = static_cast<std::int64_t>(stride);
  gemm.offsets = offsets.data();
  gemm.slots = static_cast<std::int32_t>(slots);
  gemm.weights = table_gpu.data();
  gemm.weight_stride = static_cast<std::int64_t>(stride);
  gemm.k = extent.k;
  gemm.n = extent.n;
  gemm.output = output.data();
  gemm.output_stride = extent.n;
  gemm.output_dtype = DType::f32;
  const Stream stream = Stream::on(gpu);
  if (!launch(gemm, kernel, table, static_cast<std::int64_t>(rows), stream)) return false;
  stream.synchronize();
  const std::vector<float> found = output.download();
  int different = 0;
  for (std::size_t q = 0; q < slots; ++q) {
    for (auto row = static_cast<std::size_t>(extent.offsets[q]);
         row < static_cast<std::size_t>(extent.offsets[q + 1]); ++row) {
      for (std::size_t column = 0; column < n; ++column) {
        const float expected = tensor_core::dot(
            std::span(a).subspan(row * stride, static_cast<std::size_t>(extent.k)),
            std::span(b).subspan((q * n + column) * stride, static_cast<std::size_t>(extent.k)));
        const float gpu_value = found[row * n + column];
        if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(gpu_value)) {
          continue;
        }
        if (++different <= 3) {
          ADD_FAILURE() << "row " << row << " column " << column << ": model " << expected
                        << ", GPU " << gpu_value;
        }
      }
    }
  }
  EXPECT_EQ(different, 0);
  return true;
}

class ModelOfTheTensorCore : public ::testing::TestWithParam<Values> {};

TEST_P(ModelOfTheTensorCore, GivesEveryOutputBitForBit) {
  std::uint32_t seed = 1;
  const bool hopper = device_limit(gpu, cudaDevAttrComputeCapabilityMajor) == 9;
  for (const Kernel kernel :
       {Kernel::few, Kernel::some, Kernel::many, Kernel::narrow, Kernel::wide}) {
    int runs = 0;
    for (const Extent& extent :
         {Extent{{0, 5, 5, 22, 151}, 64, 48}, Extent{{0, 37}, 16, 8}, Extent{{0, 3, 40}, 40, 130},
          Extent{{0, 20}, 100, 24}, Extent{{0, 300, 301}, 72, 136}, Extent{{0, 9, 17}, 2048, 16}}) {
      SCOPED_TRACE(::testing::Message() << "k " << extent.k << " n " << extent.n << " tile "
                                        << static_cast<int>(kernel));
      runs += expect_model(extent, GetParam(), kernel, ++seed) ? 1 : 0;
    }
    // The Hopper kernels take k and n that are multiples of 8: all extents but two.
    EXPECT_EQ(runs, !is_hopper(kernel) ? 6 : hopper ? 4 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, ModelOfTheTensorCore,
                         ::testing::Values(Values::normal, Values::wide, Values::cancelling,
                                           Values::subnormal, Values::with_zeros));

std::vector<std::uint16_t> row_bits(const std::vector<__nv_bfloat16>& rows, std::size_t row,
                                    std::size_t width) {
  std::vector<std::uint16_t> out;
  for (std::size_t i = 0; i < width; ++i) out.push_back(bits(rows[row * width + i]));
  return out;
}

float biased(float sum, const std::vector<float>& bias, std::size_t i) {
  return bias.empty() ? sum : sum + bias[i];
}

// One expert's row by the model, rounded to bf16.
std::vector<float> model_expert_row(const testing::HostExpert& e, const Activation& activation,
                                    const std::vector<std::uint16_t>& x, std::size_t ff) {
  const std::size_t d = x.size();
  std::vector<std::uint16_t> inner;
  for (std::size_t f = 0; f < ff; ++f) {
    const float gate = biased(tensor_core::dot(x, row_bits(e.gate, f, d)), e.gate_bias, f);
    const float up = biased(tensor_core::dot(x, row_bits(e.up, f, d)), e.up_bias, f);
    inner.push_back(bits(__nv_bfloat16(activation::activate(activation, gate, up))));
  }
  std::vector<float> out;
  for (std::size_t i = 0; i < d; ++i) {
    const float z = biased(tensor_core::dot(inner, row_bits(e.down, i, ff)), e.down_bias, i);
    out.push_back(static_cast<float>(__nv_bfloat16(z)));
  }
  return out;
}

void expect_layer_model(const testing::LayerShape& shape) {
  testing::LayerCase layer(shape, 24, 3);
  const testing::StepInput in = layer.random_input(24);
  const std::vector<float> found = layer.run(in);
  const std::size_t d = layer.hidden();
  for (std::size_t t = 0; t < 24; ++t) {
    std::vector<float> expected(d, 0.0F);
    for (std::size_t j = 0; j < static_cast<std::size_t>(shape.topk); ++j) {
      const std::size_t route = t * static_cast<std::size_t>(shape.topk) + j;
      const auto row = model_expert_row(layer.expert(static_cast<std::size_t>(in.experts[route])),
                                        shape.activation, row_bits(in.hidden, t, d),
                                        static_cast<std::size_t>(shape.ff));
      for (std::size_t i = 0; i < d; ++i) {
        expected[i] = std::fma(in.gates[route], row[i], expected[i]);
      }
    }
    for (std::size_t i = 0; i < d; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(found[t * d + i]),
                std::bit_cast<std::uint32_t>(expected[i]))
          << "token " << t << " column " << i << ": GPU " << found[t * d + i] << ", model "
          << expected[i];
    }
  }
}

TEST(DeviceLayerModel, AWholeSwigluLayerIsReproducedBitForBit) {
  expect_layer_model({.hidden = 64, .ff = 40, .experts = 8, .topk = 3});
}

TEST(DeviceLayerModel, AWholeClampedLayerWithBiasesIsReproducedBitForBit) {
  expect_layer_model({.hidden = 72,
                      .ff = 52,
                      .experts = 6,
                      .topk = 2,
                      .activation = {.kind = ActivationKind::swiglu_clamped, .limit = 1.0F},
                      .biases = true});
}

TEST(Activation, StaysWithinTwoUnitsOfTheDoublePrecisionValue) {
  for (float x = -80.0F; x < 80.0F; x += 0.0371F) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(activation::exponential(x) / exact, 1.0, 3e-7) << x;
  }
  EXPECT_TRUE(std::isnan(activation::activate({}, NAN, 1.0F)));
  EXPECT_TRUE(
      std::isnan(activation::activate({.kind = ActivationKind::swiglu_clamped}, 1.0F, NAN)));
  EXPECT_EQ(activation::activate({}, -200.0F, 2.0F), 0.0F);
}

}  // namespace
}  // namespace waybill
