// A row's bits depend on that row and its experts alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/layer_case.h"
#include "waybill/digest.h"

namespace waybill {
namespace {

using testing::LayerCase;
using testing::LayerShape;
using testing::StepInput;

const LayerShape kShape{.hidden = 256, .ff = 200, .experts = 16, .topk = 4};

std::string sha256(std::span<const float> rows) { return sha256_hex(std::as_bytes(rows)); }

// Tokens [first, first + tokens) of a step as a step of its own.
StepInput part(const StepInput& in, std::size_t first, std::int32_t tokens) {
  const std::size_t k = in.experts.size() / static_cast<std::size_t>(in.tokens);
  const std::size_t d = in.hidden.size() / static_cast<std::size_t>(in.tokens);
  const auto n = static_cast<std::size_t>(tokens);
  const auto cut = [&](const auto& column, std::size_t width) {
    const auto at = column.begin() + static_cast<std::ptrdiff_t>(first * width);
    return std::vector(at, at + static_cast<std::ptrdiff_t>(n * width));
  };
  return {tokens, cut(in.experts, k), cut(in.gates, k), cut(in.hidden, d)};
}

TEST(SameBits, ARowAloneEqualsItselfAmongOthersUnderEveryTile) {
  LayerCase layer(kShape, 2000, 1);
  const StepInput all = layer.random_input(2000);
  const std::vector<float> expected = layer.run(all);
  const std::size_t d = layer.hidden();
  for (const std::int32_t tokens : {1, 7, 30, 100, 600}) {
    for (const std::size_t first : {std::size_t{0}, std::size_t{1234}}) {
      const std::vector<float> found = layer.run(part(all, first, tokens));
      EXPECT_EQ(sha256(found), sha256(std::span(expected).subspan(first * d, found.size())))
          << tokens << " tokens from " << first;
    }
  }
}

// Tokens of which every third is dropped and every other expert has one token or none.
StepInput uneven(LayerCase& layer, std::int32_t tokens) {
  StepInput in = layer.random_input(tokens);
  for (std::size_t r = 0; r < in.experts.size(); ++r) {
    if (r % 3 == 0) in.experts[r] = dropped_route;
    if (r > 20 && in.experts[r] % 2 == 1) in.experts[r] = 0;
  }
  return in;
}

// Outputs of steps of many sizes and routings, one after the other.
std::vector<float> outputs(const LayerShape& shape, DType return_dtype, ProductKernel kernel) {
  const std::vector<std::int32_t> sizes =
      testing::short_run() ? std::vector<std::int32_t>{0, 1, 33, 257}
                           : std::vector<std::int32_t>{0, 1, 2, 9, 33, 130, 257, 900};
  LayerCase layer(shape, sizes.back(), 7, return_dtype, kernel);
  std::vector<float> all;
  const auto run = [&](const StepInput& in) {
    const std::vector<float> rows = layer.run(in);
    layer.layer().check(layer.stream());
    all.insert(all.end(), rows.begin(), rows.end());
  };
  for (const std::int32_t tokens : sizes) {
    run(layer.random_input(tokens));
    run(uneven(layer, tokens));
  }
  StepInput in = layer.random_input(sizes.back());
  std::fill(in.experts.begin(), in.experts.end(), shape.experts - 1);
  run(in);
  std::fill(in.experts.begin(), in.experts.end(), dropped_route);
  run(in);
  return all;
}

TEST(SameBits, EveryKernelGivesTheBitsOfThePortableOne) {
  for (const LayerShape& shape :
       {kShape, LayerShape{.hidden = 1032, .ff = 136, .experts = 5, .topk = 2},
        LayerShape{.hidden = 72,
        .ff = 1000,
        .experts = 40,
        .topk = 3,
        .activation = {.kind = ActivationKind::swiglu_clamped, .limit = 1.0F},
        .biases = true},
        LayerShape{.hidden = 16, .ff = 8, .experts = 1, .topk = 1}}) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
      const std::vector<float> expected = outputs(shape, dtype, ProductKernel::portable);
      for (const ProductKernel kernel :
           {ProductKernel::hopper_narrow, ProductKernel::hopper_wide}) {
        const std::vector<float> found = outputs(shape, dtype, kernel);
        ASSERT_EQ(found.size(), expected.size());
        std::size_t different = 0;
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i])) {
            continue;
          }
          if (++different == 1) {
            ADD_FAILURE() << "hidden " << shape.hidden << " ff " << shape.ff << " kernel "
                          << static_cast<int>(kernel) << " row "
                          << i / static_cast<std::size_t>(shape.hidden) << " column "
                          << i % static_cast<std::size_t>(shape.hidden) << ": " << found[i]
                          << " instead of " << expected[i];
          }
        }
        EXPECT_EQ(different, 0) << "of " << found.size();
      }
    }
  }
}

class SameBitsOf : public ::testing::TestWithParam<ProductKernel> {};

INSTANTIATE_TEST_SUITE_P(Kernels, SameBitsOf,
                         ::testing::Values(ProductKernel::portable, ProductKernel::hopper_narrow,
                                           ProductKernel::hopper_wide));

TEST_P(SameBitsOf, NotANumberAndInfinityStayInTheirRow) {
  LayerCase layer(kShape, 64, 2, DType::bf16, GetParam());
  StepInput in = layer.random_input(64);
  const std::vector<float> expected = layer.run(in);
  const std::size_t d = layer.hidden();
  in.hidden[5 * d + 3] = __nv_bfloat16(std::numeric_limits<float>::quiet_NaN());
  in.hidden[40 * d] = __nv_bfloat16(std::numeric_limits<float>::infinity());
  const std::vector<float> found = layer.run(in);
  layer.layer().check(layer.stream());
  for (std::size_t t = 0; t < 64; ++t) {
    const auto row = std::span(found).subspan(t * d, d);
    if (t == 5) {
      for (const float x : row) EXPECT_TRUE(std::isnan(x));
    } else if (t != 40) {
      EXPECT_EQ(sha256(row), sha256(std::span(expected).subspan(t * d, d))) << "token " << t;
    }
  }
}

// A step's kernels begin while those of the step before still run.
TEST_P(SameBitsOf, StepsThatFollowWithoutAWaitEqualStepsApart) {
  LayerCase layer(kShape, 700, 9, DType::bf16, GetParam());
  struct Step {
    StepInput in;
    std::vector<float> expected;
    DeviceArray<std::int32_t> experts;
    DeviceArray<float> gates, output;
    DeviceArray<__nv_bfloat16> hidden;
  };
  std::vector<Step> steps;
  const int rounds = testing::short_run() ? 1 : 20;
  for (const std::int32_t tokens : {700, 1, 40, 300, 2, 700, 90, 1}) {
    const StepInput in = uneven(layer, tokens);
    steps.push_back({.in = in,
                     .expected = layer.run(in),
                     .experts = testing::on_gpu(in.experts),
                     .gates = testing::on_gpu(in.gates),
                     .output = testing::on_gpu(std::vector<float>(in.hidden.size(), -1.0F)),
                     .hidden = testing::on_gpu(in.hidden)});
  }
  for (int round = 0; round < rounds; ++round) {
    for (const Step& step : steps) {
      DeviceStep run = layer.step(step.in.tokens);
      run.experts.data = step.experts.data();
      run.gates.data = step.gates.data();
      run.hidden.data = step.hidden.data();
      run.output.data = step.output.data();
      layer.layer().forward(run, layer.stream());
    }
    layer.stream().synchronize();
    for (const Step& step : steps) {
      ASSERT_EQ(sha256(step.output.download()), sha256(step.expected))
          << step.in.tokens << " tokens, round " << round;
    }
  }
}

TEST(SameBits, AGraphReplayedWithChangedRoutingEqualsEagerSteps) {
  LayerCase layer(kShape, 48, 3);
  const StepInput first = layer.random_input(48);
  layer.upload(first);
  const std::unique_ptr<CapturedStep> captured =
      layer.layer().capture(layer.step(48), layer.stream(), {});
  for (int replay = 0; replay < 4; ++replay) {
    StepInput in = layer.random_input(48);
    if (replay == 1) std::fill(in.experts.begin(), in.experts.end(), 3);
    if (replay == 2) std::fill(in.experts.begin(), in.experts.begin() + 100, dropped_route);
    const std::vector<float> expected = layer.run(in);
    layer.upload(in);
    captured->replay(layer.stream());
    EXPECT_EQ(sha256(layer.output(48)), sha256(expected)) << "replay " << replay;
  }
}

// What the program says by its PTX instead of its machine code.
std::string output_hash_of_ptx() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(("CUDA_FORCE_PTX_JIT=1 '" + program + "' --hash").c_str(), "r"), pclose);
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
    std::string line = buffer.data();
    const std::string_view says = "output hash ";
    if (line.starts_with(says)) return line.substr(says.size(), line.find('\n') - says.size());
  }
  return "none";
}

TEST(SameBits, ThePtxBuildEqualsTheSm90aBuild) {
  const std::string hash = testing::output_hash();
  EXPECT_EQ(output_hash_of_ptx(), fmt::format("{} by code for 80", hash));
  if (device_limit(testing::gpu, cudaDevAttrComputeCapabilityMajor) == 9) {
    EXPECT_EQ(grouped_gemm_ptx_version(), 90);
  }
}

}  // namespace

std::string testing::output_hash() {
  Sha256 hash;
  for (const LayerShape& shape : {kShape, LayerShape{.hidden = 72,
                                          .ff = 52,
                                          .experts = 6,
                                          .topk = 2,
                                          .activation = {.kind = ActivationKind::swiglu_clamped},
                                          .biases = true}}) {
    LayerCase layer(shape, 1500, 4);
    for (const std::int32_t tokens : {1, 60, 1500}) {
      const std::vector<float> rows = layer.run(layer.random_input(tokens));
      hash.update(std::as_bytes(std::span(rows)));
    }
  }
  return hash.finish_hex();
}

}  // namespace waybill
