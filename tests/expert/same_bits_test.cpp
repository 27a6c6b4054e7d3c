// A row's bits depend on the row and its expert alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "expert/random_expert.h"
#include "property/property.h"

namespace waybill {
namespace {

std::shared_ptr<const ExpertBundle> random_bundle(DType dtype, std::int64_t d, std::int64_t ff,
                                                  Random& random) {
  return ExpertBundle::pack(RandomExpert(dtype, d, ff, random, true).weights, dtype);
}

std::vector<std::int32_t> shuffled(std::int64_t n, Random& random) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

void expect_same_row(const Elements& a, std::int64_t row_a, const Elements& b, std::int64_t row_b) {
  EXPECT_TRUE(std::ranges::equal(row_bytes(a, row_a), row_bytes(b, row_b)))
      << "rows " << row_a << " and " << row_b;
}

class SameBits : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype = GetParam();
  Random random{11};
};

TEST_P(SameBits, RowAloneAndAmong64OthersAtEveryPosition) {
  const auto bundle = random_bundle(dtype, 70, 50, random);
  const Elements row = random_elements(dtype, 1, 70, 1, random);
  const Elements alone = run_one(*bundle, row, dtype);
  Elements batch = random_elements(dtype, 65, 70, 1, random);
  const std::size_t size = row.bytes.size();
  for (std::int64_t at = 0; at < 65; ++at) {
    const Elements others = batch.copy();
    std::memcpy(batch.bytes.data() + static_cast<std::size_t>(at) * size, row.bytes.data(), size);
    expect_same_row(run_one(*bundle, batch, dtype), at, alone, 0);
    batch.bytes = others.bytes;
    batch.view.data = batch.bytes.data();
  }
}

TEST_P(SameBits, SixteenRowsAloneAndWith48Others) {
  const auto bundle = random_bundle(dtype, 70, 50, random);
  const Elements batch = random_elements(dtype, 64, 70, 1, random);
  std::vector<std::int32_t> first(16);
  std::iota(first.begin(), first.end(), 0);
  const Elements few = run_one(*bundle, rows_of(batch, first), dtype);
  const Elements many = run_one(*bundle, batch, dtype);
  for (std::int64_t r = 0; r < 16; ++r) expect_same_row(few, r, many, r);
}

TEST_P(SameBits, EveryRowCountGivesTheRowsOfOneAtATime) {
  const auto bundle = random_bundle(dtype, 37, 45, random);
  const Elements batch = random_elements(dtype, 200, 37, 1, random);
  const Elements all = run_one(*bundle, batch, dtype);
  for (std::int32_t rows = 1; rows < 200; rows += rows < 30 ? 1 : 17) {
    const auto order = shuffled(200, random);
    const auto chosen = std::span(order).first(static_cast<std::size_t>(rows));
    const Elements some = run_one(*bundle, rows_of(batch, chosen), dtype);
    for (std::int32_t r = 0; r < rows; ++r) expect_same_row(some, r, all, chosen[r]);
  }
}

TEST_P(SameBits, PackedAndInPlace) {
  for (const DType stored : {DType::f32, DType::bf16, DType::f16}) {
    const RandomExpert expert(stored, 75, 41, random, true);
    for (const std::int64_t rows : {1, 5, 40}) {
      const Elements input = random_elements(dtype, rows, 75, 1, random);
      const auto packed = ExpertBundle::pack(expert.weights, dtype);
      const auto borrowed = ExpertBundle::borrow(expert.weights, dtype);
      EXPECT_EQ(run_one(*packed, input, dtype).bytes, run_one(*borrowed, input, dtype).bytes);
    }
  }
}

TEST_P(SameBits, PanelsLongerThanABlockPackedAndInPlace) {
  const RandomExpert expert(DType::bf16, 600, 530, random);
  const Elements input = random_elements(dtype, 27, 600, 1, random);
  const auto packed = ExpertBundle::pack(expert.weights, dtype);
  const auto borrowed = ExpertBundle::borrow(expert.weights, dtype);
  const Elements output = run_one(*packed, input, dtype);
  EXPECT_EQ(output.bytes, run_one(*borrowed, input, dtype).bytes);
  for (const std::int32_t r : {0, 13, 26}) {
    expect_same_row(run_one(*packed, rows_of(input, std::vector{r}), dtype), 0, output, r);
  }
}

TEST_P(SameBits, TransposedLayout) {
  RandomExpert expert(DType::bf16, 75, 41, random, true);
  const Elements input = random_elements(dtype, 9, 75, 1, random);
  const Elements plain = run_one(*ExpertBundle::pack(expert.weights, dtype), input, dtype);
  for (Elements* matrix : {&expert.gate, &expert.up, &expert.down}) matrix->transpose_storage();
  expert.refresh();
  EXPECT_EQ(run_one(*ExpertBundle::pack(expert.weights, dtype), input, dtype).bytes, plain.bytes);
  EXPECT_EQ(run_one(*ExpertBundle::borrow(expert.weights, dtype), input, dtype).bytes, plain.bytes);
}

TEST_P(SameBits, InterleavedGateAndUp) {
  // gpt-oss: one [in, 2·ff] matrix whose even columns are gate, and biases likewise.
  const std::int64_t d = 21;
  const std::int64_t ff = 35;
  RandomExpert expert(DType::bf16, d, ff, random, true);
  const Elements input = random_elements(dtype, 9, d, 1, random);
  const Elements plain = run_one(*ExpertBundle::pack(expert.weights, dtype), input, dtype);

  Elements both = Elements::zeros(DType::bf16, d, 2 * ff);
  Elements bias = Elements::zeros(DType::bf16, 1, 2 * ff);
  for (std::int64_t i = 0; i < ff; ++i) {
    for (std::int64_t k = 0; k < d; ++k) {
      both.set(k, 2 * i, static_cast<float>(element(expert.gate.view, i, k)));
      both.set(k, 2 * i + 1, static_cast<float>(element(expert.up.view, i, k)));
    }
    bias.set(0, 2 * i, static_cast<float>(element(expert.gate_bias.view, i)));
    bias.set(0, 2 * i + 1, static_cast<float>(element(expert.up_bias.view, i)));
  }
  ExpertWeights& w = expert.weights;
  w.gate.data = both.bytes.data();
  w.up.data = both.bytes.data() + 2;
  w.gate.strides = w.up.strides = {2, 2 * ff};
  w.gate_bias.data = bias.bytes.data();
  w.up_bias.data = bias.bytes.data() + 2;
  w.gate_bias.strides = w.up_bias.strides = {2};
  EXPECT_EQ(run_one(*ExpertBundle::pack(w, dtype), input, dtype).bytes, plain.bytes);
  EXPECT_EQ(run_one(*ExpertBundle::borrow(w, dtype), input, dtype).bytes, plain.bytes);
}

TEST_P(SameBits, AnyNumberOfThreads) {
  std::vector<std::shared_ptr<const ExpertBundle>> bundles;
  Segments segments;
  for (const std::int32_t rows : {3, 0, 130, 1, 0, 450, 12, 77}) {
    bundles.push_back(random_bundle(dtype, 70, 20 + rows % 30, random));
    segments.add(*bundles.back(), rows);
  }
  const Elements input = random_elements(dtype, segments.offsets.back(), 70, 1, random);
  const Elements inline_output = run_grouped(segments, input, dtype);
  for (const std::int32_t threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    EXPECT_EQ(run_grouped(segments, input, dtype, &pool).bytes, inline_output.bytes);
  }
}

TEST_P(SameBits, OnAWorkerStream) {
  const auto bundle = random_bundle(dtype, 33, 20, random);
  Segments segments;
  segments.add(*bundle, 30);
  const Elements input = random_elements(dtype, 30, 33, 1, random);
  const Elements output = Elements::zeros(dtype, 30, 33);
  const auto runner = make_grouped_runner();
  const RunnerInput run = segments.over(input, output);
  Workspace workspace({}, runner->workspace_bytes(run));
  runner->run(run, workspace, Stream::cpu_worker()).wait();
  EXPECT_EQ(output.bytes, run_grouped(segments, input, dtype).bytes);
}

TEST_P(SameBits, GatherAndScatterAreExplicitCopies) {
  const auto first = random_bundle(dtype, 40, 24, random);
  const auto second = random_bundle(dtype, 40, 24, random);
  const Elements tokens = random_elements(dtype, 25, 40, 1, random);
  Segments segments;
  segments.add(*first, 20);
  segments.add(*second, 30);
  std::vector<std::int32_t> token_of(50);
  for (std::size_t r = 0; r < 50; ++r) token_of[r] = static_cast<std::int32_t>(r * 7 % 25);
  const Elements plain = run_grouped(segments, rows_of(tokens, token_of), DType::f32);

  segments.gather = token_of;
  segments.scatter = shuffled(60, random);
  segments.scatter.resize(50);
  const Elements scattered = Elements::zeros(DType::f32, 60, 40);
  run_grouped(segments.over(tokens, scattered));
  for (std::int64_t r = 0; r < 50; ++r) {
    expect_same_row(plain, r, scattered, segments.scatter[static_cast<std::size_t>(r)]);
  }
  const std::vector<std::byte> zeros(40 * sizeof(float));
  for (std::int32_t row = 0; row < 60; ++row) {
    if (std::ranges::count(segments.scatter, row) == 0) {
      EXPECT_TRUE(std::ranges::equal(row_bytes(scattered, row), zeros)) << "nobody's row " << row;
    }
  }
}

TEST_P(SameBits, RowsThatAreFurtherApartThanTheyAreLong) {
  const auto bundle = random_bundle(dtype, 40, 24, random);
  Elements wide = random_elements(dtype, 20, 50, 1, random);
  wide.view.shape[1] = 40;
  Elements narrow = Elements::zeros(dtype, 20, 40);
  for (std::int64_t r = 0; r < 20; ++r) {
    for (std::int64_t j = 0; j < 40; ++j) {
      narrow.set(r, j, static_cast<float>(element(wide.view, r, j)));
    }
  }
  EXPECT_EQ(run_one(*bundle, wide, dtype).bytes, run_one(*bundle, narrow, dtype).bytes);
}

TEST_P(SameBits, NaNAndInfinityStayInTheirRow) {
  const auto bundle = random_bundle(dtype, 70, 50, random);
  const Elements clean = random_elements(dtype, 40, 70, 1, random);
  const Elements want = run_one(*bundle, clean, dtype);
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Elements dirty = clean.copy();
    dirty.set(17, 3, poison);
    const Elements output = run_one(*bundle, dirty, dtype);
    EXPECT_FALSE(std::isfinite(element(output.view, 17, 0)));
    for (std::int64_t r = 0; r < 40; ++r) {
      if (r != 17) expect_same_row(output, r, want, r);
    }
  }
}

TEST_P(SameBits, OutputDtypeOnlyRounds) {
  const auto bundle = random_bundle(dtype, 45, 24, random);
  const Elements input = random_elements(dtype, 14, 45, 1, random);
  const Elements full = run_one(*bundle, input, DType::f32);
  const Elements rounded = run_one(*bundle, input, DType::bf16);
  for (std::int64_t r = 0; r < 14; ++r) {
    for (std::int64_t j = 0; j < 45; ++j) {
      EXPECT_EQ(element(rounded.view, r, j),
                widen_bf16(round_to_bf16(static_cast<float>(element(full.view, r, j)))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SameBits, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

PROPERTY(SameBitsProperty, AnySplitIntoSegmentsThreadsAndOrders) {
  Random random(static_cast<unsigned>(property::draw_bits()));
  const auto dtype = property::draw_one_of({DType::f32, DType::bf16});
  const auto d = property::draw<std::int64_t>(1, 80);
  const auto counts = property::draw_integers(property::draw<std::size_t>(0, 40), 0, 30);
  std::vector<std::shared_ptr<const ExpertBundle>> bundles;
  Segments segments;
  for (const std::int32_t rows : counts) {
    const auto ff = property::draw<std::int64_t>(1, 60);
    bundles.push_back(random_bundle(dtype, d, ff, random));
    segments.add(*bundles.back(), rows);
  }
  const std::int32_t rows = segments.offsets.back();
  const Elements input = random_elements(dtype, rows, d, 1, random);
  const Elements output = Elements::zeros(dtype, rows, d);
  segments.gather = shuffled(rows, random);
  segments.scatter = shuffled(rows, random);
  ThreadPool pool(property::draw(1, 4));
  run_grouped(segments.over(input, output), &pool);

  for (std::size_t q = 0; q < counts.size(); ++q) {
    for (std::int32_t r = segments.offsets[q]; r < segments.offsets[q + 1]; ++r) {
      const auto row = static_cast<std::size_t>(r);
      const Elements x = rows_of(input, std::vector{segments.gather[row]});
      const Elements alone = run_one(*bundles[q], x, dtype);
      HOLDS(std::ranges::equal(row_bytes(alone, 0), row_bytes(output, segments.scatter[row])));
    }
  }
}

}  // namespace
}  // namespace waybill
