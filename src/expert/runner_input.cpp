#include "expert/runner_input.h"

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill {
namespace {

void check_rows_view(const TensorView& view, std::string_view tensor) {
  if (view.dtype != DType::f32 && view.dtype != DType::bf16) {
    throw Error(Code::DtypeMismatch).at("tensor", tensor).expected("f32 or bf16").found(view.dtype);
  }
  if (view.rank != 2 || (view.strides[1] != 1 && view.shape[1] > 1)) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", tensor)
        .expected("[rows, d] with the elements of a row adjacent")
        .found(shape_text(view));
  }
}

void check_offsets(const RunnerInput& input) {
  if (input.offsets.size() != input.experts.size() + 1) {
    throw Error(Code::DescriptorSlotMismatch)
        .expected(fmt::format("{} offsets for {} experts", input.experts.size() + 1,
                              input.experts.size()))
        .found(input.offsets.size());
  }
  if (input.offsets[0] != 0) {
    throw Error(Code::SegmentOffsetMismatch).at("offset", 0).expected(0).found(input.offsets[0]);
  }
  for (std::size_t q = 0; q < input.experts.size(); ++q) {
    if (input.offsets[q + 1] < input.offsets[q]) {
      throw Error(Code::SegmentOffsetMismatch)
          .at("offset", q + 1)
          .expected(fmt::format("at least {}", input.offsets[q]))
          .found(input.offsets[q + 1]);
    }
  }
}

void check_experts(const RunnerInput& input) {
  const std::int64_t d = input.input.shape[1];
  for (std::size_t q = 0; q < input.experts.size(); ++q) {
    if (input.offsets[q] == input.offsets[q + 1]) continue;
    const ExpertBundle* expert = input.experts[q];
    if (expert == nullptr) {
      throw Error(Code::DescriptorSlotMismatch)
          .at("segment", q)
          .expected("an expert")
          .found("none");
    }
    if (expert->hidden() != d) {
      throw Error(Code::ShapeMismatch).at("segment", q).expected(expert->hidden()).found(d);
    }
    if (expert->dtype() != input.input.dtype) {
      throw Error(Code::DtypeMismatch)
          .at("segment", q)
          .expected(expert->dtype())
          .found(input.input.dtype);
    }
  }
}

// Expert row r is row indices[r] of a tensor, or row r when there are no indices.
void check_indices(std::span<const std::int32_t> indices, std::string_view what, std::int64_t rows,
                   std::int64_t tensor_rows) {
  if (indices.empty()) {
    if (rows <= tensor_rows) return;
    throw Error(Code::ShapeMismatch)
        .at("tensor", what == "gather" ? "input" : "output")
        .expected(fmt::format("at least {} rows", rows))
        .found(tensor_rows);
  }
  if (std::ssize(indices) != rows) {
    throw Error(Code::ShapeMismatch).at("column", what).expected(rows).found(indices.size());
  }
  for (std::size_t r = 0; r < indices.size(); ++r) {
    if (indices[r] < 0 || indices[r] >= tensor_rows) {
      throw Error(Code::ShapeMismatch)
          .at("column", what)
          .at("row", r)
          .expected(fmt::format("in [0, {})", tensor_rows))
          .found(indices[r]);
    }
  }
}

}  // namespace

void check(const RunnerInput& input) {
  check_rows_view(input.input, "input");
  check_rows_view(input.output, "output");
  if (input.input.shape[1] != input.output.shape[1]) {
    throw Error(Code::ShapeMismatch)
        .at("tensor", "output")
        .expected(fmt::format("{} columns", input.input.shape[1]))
        .found(input.output.shape[1]);
  }
  check_offsets(input);
  check_experts(input);
  check_indices(input.gather, "gather", rows(input), input.input.shape[0]);
  check_indices(input.scatter, "scatter", rows(input), input.output.shape[0]);
}

}  // namespace waybill
