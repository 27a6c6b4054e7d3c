// Random experts and rows in any stored dtype and layout, and runs over them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "base/narrow_float.h"
#include "support/difference.h"
#include "waybill/expert.h"

namespace waybill {

inline std::uint16_t round_to_f16(float value) {
  // Exact for the values used here: multiples of 2^-10 below 4.
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value == 0) return static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t exponent = ((bits >> 23) & 0xFFU) - 112;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | exponent << 10 |
                                    ((bits >> 13) & 0x3FFU));
}

// A matrix or vector that owns its elements.
struct Elements {
  std::vector<std::byte> bytes;
  TensorView view;

  static Elements zeros(DType dtype, std::int64_t rows, std::int64_t columns) {
    Elements e;
    e.bytes.resize(static_cast<std::size_t>(rows * columns) * size_of(dtype));
    e.view = TensorView::contiguous(e.bytes.data(), dtype, {rows, columns});
    return e;
  }
  void set(std::int64_t i, std::int64_t j, float value) {
    const std::int64_t at = i * view.strides[0] + j * view.strides[1];
    if (view.dtype == DType::f32) {
      view.as<float>()[at] = value;
    } else {
      view.as<std::uint16_t>()[at] =
          view.dtype == DType::bf16 ? round_to_bf16(value) : round_to_f16(value);
    }
  }
  // The same logical values stored [columns, rows].
  void transpose_storage() {
    const Elements source = copy();
    view.strides = {1, view.shape[0]};
    for (std::int64_t i = 0; i < view.shape[0]; ++i) {
      for (std::int64_t j = 0; j < view.shape[1]; ++j) {
        set(i, j, static_cast<float>(element(source.view, i, j)));
      }
    }
  }
  Elements copy() const {
    Elements e{bytes, view};
    e.view.data = e.bytes.data();
    return e;
  }
};

using Random = std::mt19937;

// Multiples of 2^-10 in about [-scale, scale]: exact in f32 and f16.
inline Elements random_elements(DType dtype, std::int64_t rows, std::int64_t columns, float scale,
                                Random& random) {
  Elements e = Elements::zeros(dtype, rows, columns);
  std::uniform_int_distribution<int> steps(-1023, 1023);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      e.set(i, j, static_cast<float>(steps(random)) * scale * 0x1p-10F);
    }
  }
  return e;
}

struct RandomExpert {
  Elements gate, up, down, gate_bias, up_bias, down_bias;
  ExpertWeights weights;

  RandomExpert(DType stored, std::int64_t d, std::int64_t ff, Random& random, bool biases = false)
      : gate(random_elements(stored, ff, d, 0.5F, random)),
        up(random_elements(stored, ff, d, 0.5F, random)),
        down(random_elements(stored, d, ff, 0.5F, random)) {
    if (biases) {
      gate_bias = random_elements(stored, ff, 1, 1, random);
      up_bias = random_elements(stored, ff, 1, 1, random);
      down_bias = random_elements(stored, d, 1, 1, random);
      for (Elements* bias : {&gate_bias, &up_bias, &down_bias}) bias->view.rank = 1;
    }
    refresh();
  }
  void refresh() {
    weights = {gate.view, up.view, down.view, gate_bias.view, up_bias.view, down_bias.view};
  }
};

// Segments over experts, and a run of them with the grouped runner.
struct Segments {
  std::vector<const ExpertBundle*> experts;
  std::vector<std::int32_t> offsets{0};
  std::vector<std::int32_t> gather, scatter;
  Activation activation;

  void add(const ExpertBundle& expert, std::int32_t rows) {
    experts.push_back(&expert);
    offsets.push_back(offsets.back() + rows);
  }
  RunnerInput over(const Elements& input, const Elements& output) const {
    return {input.view, gather, output.view, scatter, offsets, experts, activation};
  }
};

inline void run_grouped(const RunnerInput& input, ThreadPool* pool = nullptr) {
  const auto runner = make_grouped_runner();
  Workspace workspace({}, runner->workspace_bytes(input));
  runner->run(input, workspace, Stream::cpu_inline(), pool).wait();
}

inline Elements run_grouped(const Segments& segments, const Elements& input, DType output_dtype,
                            ThreadPool* pool = nullptr) {
  Elements output = Elements::zeros(output_dtype, segments.offsets.back(), input.view.shape[1]);
  run_grouped(segments.over(input, output), pool);
  return output;
}

// All rows through one expert.
inline Elements run_one(const ExpertBundle& expert, const Elements& input, DType output_dtype,
                        ThreadPool* pool = nullptr, const Activation& activation = {}) {
  Segments segments;
  segments.activation = activation;
  segments.add(expert, static_cast<std::int32_t>(input.view.shape[0]));
  return run_grouped(segments, input, output_dtype, pool);
}

inline std::span<const std::byte> row_bytes(const Elements& e, std::int64_t row) {
  const auto size = static_cast<std::size_t>(e.view.shape[1]) * size_of(e.view.dtype);
  return std::span(e.bytes).subspan(static_cast<std::size_t>(row) * size, size);
}

// The rows of `source` that `order` names.
inline Elements rows_of(const Elements& source, std::span<const std::int32_t> order) {
  Elements e = Elements::zeros(source.view.dtype, std::ssize(order), source.view.shape[1]);
  for (std::size_t r = 0; r < order.size(); ++r) {
    const auto row = row_bytes(source, order[r]);
    std::memcpy(e.bytes.data() + r * row.size(), row.data(), row.size());
  }
  return e;
}

// Against the direct evaluation in double precision.
inline testing::Difference difference(const Elements& output, const ExpertWeights& weights,
                                      const Activation& activation, const Elements& input) {
  const std::int64_t d = weights.hidden();
  std::vector<double> x(static_cast<std::size_t>(d));
  std::vector<double> y(static_cast<std::size_t>(d));
  testing::Difference difference;
  for (std::int64_t r = 0; r < input.view.shape[0]; ++r) {
    for (std::int64_t j = 0; j < d; ++j) x[static_cast<std::size_t>(j)] = element(input.view, r, j);
    evaluate_expert(weights, activation, x, y);
    for (std::int64_t j = 0; j < d; ++j) {
      difference.add(element(output.view, r, j), y[static_cast<std::size_t>(j)]);
    }
  }
  return difference;
}

}  // namespace waybill
