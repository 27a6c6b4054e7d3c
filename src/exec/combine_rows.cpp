#include "exec/combine_rows.h"

#include <vector>

#include "base/narrow_float.h"
#include "base/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/combine_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace waybill::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct WeightedRow {
  const std::byte* row;
  float gate;
};

template <class D>
hn::Vec<D> load(D d, const float* row, std::size_t i) {
  return hn::LoadU(d, row + i);
}
template <class D>
hn::Vec<D> load(D d, const std::uint16_t* row, std::size_t i) {
  const hn::Rebind<std::uint16_t, D> narrow;
  const hn::Rebind<std::uint32_t, D> wide;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, row + i))));
}

template <class D>
void store(D d, hn::Vec<D> sum, float* row, std::size_t i) {
  hn::StoreU(sum, d, row + i);
}
template <class D>
void store(D d, hn::Vec<D> sum, std::uint16_t* row, std::size_t i) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(sum, d, lanes);
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane)
    row[i + lane] = round_to_bf16(lanes[lane]);
}

// One token's rows of the target.
template <class Out>
struct TokenTarget {
  Out* output;
  const float* shared;  // or null
  float* routed;        // or null
};

// Elements [i, i + Lanes(d)) of one token.
template <class D, class In, class Out>
void combine_columns(D d, const std::vector<WeightedRow>& rows, const TokenTarget<Out>& to,
                     std::size_t i) {
  auto sum = hn::Zero(d);
  for (const WeightedRow& z : rows) {
    sum = hn::MulAdd(hn::Set(d, z.gate), load(d, reinterpret_cast<const In*>(z.row), i), sum);
  }
  if (to.routed != nullptr) hn::StoreU(sum, d, to.routed + i);
  if (to.shared != nullptr) sum = hn::Add(sum, hn::LoadU(d, to.shared + i));
  store(d, sum, to.output, i);
}

template <class In, class Out>
void combine_token(const std::vector<WeightedRow>& rows, const TokenTarget<Out>& to,
                   std::size_t columns) {
  const hn::ScalableTag<float> vector;
  const hn::CappedTag<float, 1> scalar;
  const std::size_t step = hn::Lanes(vector);
  std::size_t i = 0;
  for (; i + step <= columns; i += step) {
    combine_columns<decltype(vector), In>(vector, rows, to, i);
  }
  for (; i < columns; ++i) combine_columns<decltype(scalar), In>(scalar, rows, to, i);
}

template <class T>
T* row_of(const TensorView& tensor, std::int64_t row) {
  return tensor.data == nullptr ? nullptr : tensor.as<T>() + row * tensor.strides[0];
}

template <class In, class Out>
void combine_range(const CombineInput& input, std::int64_t first, std::int64_t last) {
  const auto columns = static_cast<std::size_t>(input.to.output.shape[1]);
  const std::size_t row_bytes = columns * sizeof(In);
  std::vector<WeightedRow> rows;
  rows.reserve(static_cast<std::size_t>(input.routes.topk));
  for (std::int64_t token = first; token < last; ++token) {
    rows.clear();
    for (std::int64_t j = 0; j < input.routes.topk; ++j) {
      const auto route = static_cast<std::size_t>(token * input.routes.topk + j);
      const std::int32_t position = input.send_position[route];
      if (position < 0) continue;
      const std::byte* row =
          input.sent.is_local(position)
              ? input.local_rows + input.sent.local_index(position) * row_bytes
              : input.returned + static_cast<std::size_t>(input.sent(position)) * row_bytes;
      rows.push_back({row, input.routes.gates[route]});
    }
    const TokenTarget<Out> to{row_of<Out>(input.to.output, token),
                              row_of<const float>(input.to.shared, token),
                              row_of<float>(input.to.routed, token)};
    combine_token<In>(rows, to, columns);
  }
}

void combine(const CombineInput& input, std::int64_t first, std::int64_t last) {
  if (input.dtype == DType::f32) {
    combine_range<float, float>(input, first, last);
  } else if (input.to.output.dtype == DType::f32) {
    combine_range<std::uint16_t, float>(input, first, last);
  } else {
    combine_range<std::uint16_t, std::uint16_t>(input, first, last);
  }
}

}  // namespace waybill::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace waybill {

HWY_EXPORT(combine);

void combine_tokens(const CombineInput& input, std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(combine)(input, first, last);
}

}  // namespace waybill
#endif
