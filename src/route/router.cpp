#include "waybill/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>

#include "route/logits.h"
#include "route/sparsemixer.h"
#include "route/top_experts.h"
#include "route/widen.h"
#include "waybill/error.h"

namespace waybill {
namespace {

Error field_error(Code code, std::string_view field) { return Error(code).at("field", field); }

void check_spec(const RouterSpec& spec) {
  if (spec.experts < 1) {
    throw field_error(Code::InvalidValue, "experts").expected("at least 1").found(spec.experts);
  }
  if (spec.topk < 1) {
    throw field_error(Code::InvalidValue, "topk").expected("at least 1").found(spec.topk);
  }
  if (spec.groups < 1 || spec.experts % spec.groups != 0) {
    throw field_error(Code::InvalidValue, "groups")
        .expected(fmt::format("a divisor of the {} experts", spec.experts))
        .found(spec.groups);
  }
  if (spec.topk_groups < 1 || spec.topk_groups > spec.groups) {
    throw field_error(Code::InvalidValue, "topk_groups")
        .expected(fmt::format("between 1 and the {} groups", spec.groups))
        .found(spec.topk_groups);
  }
  if (spec.score == RouterScore::sparsemixer && spec.groups != 1) {
    throw field_error(Code::InvalidValue, "groups")
        .expected("1 with sparsemixer")
        .found(spec.groups);
  }
  const std::int32_t eligible = spec.experts / spec.groups * spec.topk_groups;
  if (spec.topk > eligible) {
    throw field_error(Code::TopKExceedsExperts, "topk")
        .expected(fmt::format("at most {} eligible experts", eligible))
        .found(spec.topk);
  }
}

void check_tensor(std::string_view field, const TensorView& tensor,
                  std::initializer_list<std::int64_t> shape) {
  const bool same_shape = tensor.rank == static_cast<std::int32_t>(shape.size()) &&
                          std::equal(shape.begin(), shape.end(), tensor.shape.begin());
  if (!same_shape) {
    throw field_error(Code::ShapeMismatch, field)
        .expected(shape_text(std::span(shape.begin(), shape.size())))
        .found(shape_text(tensor));
  }
  if (tensor.dtype != DType::f32 && tensor.dtype != DType::bf16 && tensor.dtype != DType::f16) {
    throw field_error(Code::DtypeMismatch, field).expected("f32, bf16 or f16").found(tensor.dtype);
  }
  if (tensor.device.kind != DeviceKind::cpu) {
    throw field_error(Code::DeviceUnavailable, field).expected("cpu").found(tensor.device);
  }
  if (!tensor.is_contiguous()) {
    throw field_error(Code::ShapeMismatch, field)
        .expected("contiguous rows")
        .found(
            fmt::format("strides {}", shape_text(std::span(tensor.strides).first(shape.size()))));
  }
}

void check_router(const Router& router, const TensorView& hidden) {
  check_spec(router.spec);
  const std::int64_t experts = router.spec.experts;
  if (hidden.rank != 2) {
    throw field_error(Code::ShapeMismatch, "hidden").expected("[T, d]").found(shape_text(hidden));
  }
  check_tensor("hidden", hidden, {hidden.shape[0], hidden.shape[1]});
  check_tensor("weight", router.weight, {experts, hidden.shape[1]});
  if (router.bias.data != nullptr) check_tensor("bias", router.bias, {experts});
  if (router.selection_bias.data != nullptr) {
    check_tensor("selection_bias", router.selection_bias, {experts});
    if (router.spec.score == RouterScore::sparsemixer) {
      throw field_error(Code::InvalidValue, "selection_bias")
          .expected("none with sparsemixer")
          .found("a bias");
    }
  }
  if (hidden.shape[0] > std::numeric_limits<std::int32_t>::max() / router.spec.topk) {
    throw Error(Code::RouteCountMismatch)
        .at("tokens", hidden.shape[0])
        .at("topk", router.spec.topk)
        .expected("at most 2147483647 routes on a rank")
        .found("more");
  }
}

// Shifted by the largest value, so that nothing overflows.
void softmax(std::span<float> values) {
  const float largest = *std::ranges::max_element(values);
  float sum = 0.0F;
  for (float& value : values) {
    value = std::exp(value - largest);
    sum += value;
  }
  for (float& value : values) value /= sum;
}

void sigmoid(std::span<float> values) {
  for (float& value : values) value = 1.0F / (1.0F + std::exp(-value));
}

// Turns one token's logits into its choice; keeps its scratch memory between tokens.
class TokenRouter {
 public:
  explicit TokenRouter(const Router& router)
      : spec_(router.spec), top_(router.spec), selection_(static_cast<std::size_t>(spec_.experts)) {
    if (router.selection_bias.data == nullptr) return;
    selection_bias_.resize(selection_.size());
    widen(router.selection_bias, 0, selection_bias_);
  }

  // `logits`, [E], is overwritten. A NaN among them has no rank, so it makes every gate NaN.
  void route(std::span<float> logits, std::span<std::int32_t> experts, std::span<float> gates) {
    const bool has_nan = std::ranges::any_of(logits, [](float x) { return std::isnan(x); });
    if (spec_.score == RouterScore::sparsemixer) {
      sparsemixer(logits, spec_.jitter_epsilon, experts, gates);
    } else {
      choose(logits, experts, gates);
    }
    if (has_nan) std::ranges::fill(gates, std::numeric_limits<float>::quiet_NaN());
    if (spec_.renormalize) renormalize(gates);
    for (float& gate : gates) gate *= spec_.scale;
  }

 private:
  void choose(std::span<float> logits, std::span<std::int32_t> experts, std::span<float> gates) {
    if (spec_.score == RouterScore::softmax_then_topk) softmax(logits);
    if (spec_.score == RouterScore::sigmoid) sigmoid(logits);
    top_.choose(selection_scores(logits), experts);

    std::ranges::transform(experts, gates.begin(),
                           [&](std::int32_t e) { return logits[static_cast<std::size_t>(e)]; });
    if (spec_.score == RouterScore::topk_then_softmax) softmax(gates);
    if (spec_.score == RouterScore::topk_then_sigmoid) sigmoid(gates);
  }
  std::span<const float> selection_scores(std::span<const float> scores) {
    if (selection_bias_.empty()) return scores;
    std::ranges::transform(scores, selection_bias_, selection_.begin(), std::plus<>());
    return selection_;
  }
  void renormalize(std::span<float> gates) const {
    const float sum = std::accumulate(gates.begin(), gates.end(), 0.0F) + spec_.renormalize_epsilon;
    const float divisor = std::max(sum, spec_.renormalize_floor);
    for (float& gate : gates) gate /= divisor;
  }

  RouterSpec spec_;
  TopExperts top_;
  std::vector<float> selection_bias_;
  std::vector<float> selection_;
};

}  // namespace

RoutingResult route(const Router& router, const TensorView& hidden) {
  check_router(router, hidden);
  Logits logits = router_logits(router, hidden);

  const auto tokens = static_cast<std::size_t>(hidden.shape[0]);
  const auto topk = static_cast<std::size_t>(router.spec.topk);
  RoutingResult result;
  result.topk = router.spec.topk;
  result.experts.resize(tokens * topk);
  result.gates.resize(tokens * topk);
  TokenRouter token_router(router);
  for (std::size_t t = 0; t < tokens; ++t) {
    token_router.route(logits.row(t), std::span(result.experts).subspan(t * topk, topk),
                       std::span(result.gates).subspan(t * topk, topk));
  }
  return result;
}

}  // namespace waybill
