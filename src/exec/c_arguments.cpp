#include "exec/c_arguments.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace waybill::c_api {
namespace {

[[noreturn]] void refuse(std::string_view field, std::string_view expected, std::int64_t found) {
  throw Error(Code::InvalidValue).at("field", field).expected(expected).found(found);
}

// A C enumeration counts from 0, and may hold any number.
template <class To, std::size_t n>
To enumerator(std::int32_t value, const std::array<To, n>& values, std::string_view field) {
  if (value < 0 || value >= static_cast<std::int32_t>(n))
    refuse(field, fmt::format("0 to {}", n - 1), value);
  return values[static_cast<std::size_t>(value)];
}

DType dtype_of(std::int32_t dtype, std::string_view field) {
  return enumerator(dtype, std::array{DType::f32, DType::bf16, DType::f16}, field);
}

template <class T>
std::span<const T> column(const T* data, std::int64_t size, std::string_view field) {
  if (size < 0) refuse(field, "a size of at least 0", size);
  if (data == nullptr && size > 0) refuse(field, "a pointer", 0);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

TensorView view_of(const wb_tensor* tensor, std::string_view name) {
  if (tensor == nullptr) {
    throw Error(Code::InvalidValue).at("argument", name).expected("a tensor").found("NULL");
  }
  if (tensor->rank < 0 || tensor->rank > static_cast<std::int32_t>(TensorView::max_rank)) {
    refuse(name, "at most 4 dimensions", tensor->rank);
  }
  TensorView view;
  view.data = tensor->data;
  view.dtype = dtype_of(tensor->dtype, name);
  view.rank = tensor->rank;
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor->rank); ++i) {
    if (tensor->shape[i] < 0) refuse(name, "extents of at least 0", tensor->shape[i]);
    view.shape[i] = tensor->shape[i];
    view.strides[i] = tensor->strides[i];
  }
  if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) != 0) {
    throw Error(Code::InvalidValue)
        .at("argument", name)
        .expected(fmt::format("an address aligned to {} bytes", size_of(view.dtype)))
        .found("another");
  }
  if (view.data == nullptr && view.elements() > 0 && view.rank > 0) refuse(name, "a pointer", 0);
  return view;
}

ExpertWeights weights_of(const wb_expert_weights& weights) {
  const auto optional = [](const wb_tensor& tensor, std::string_view name) {
    return tensor.data == nullptr ? TensorView{} : view_of(&tensor, name);
  };
  ExpertWeights views;
  views.gate = view_of(&weights.gate, "gate");
  views.up = view_of(&weights.up, "up");
  views.down = view_of(&weights.down, "down");
  views.gate_bias = optional(weights.gate_bias, "gate_bias");
  views.up_bias = optional(weights.up_bias, "up_bias");
  views.down_bias = optional(weights.down_bias, "down_bias");
  return views;
}

LayerOptions layer_options_of(const wb_runtime_options& options) {
  LayerOptions result;
  result.hidden = options.hidden;
  result.experts = options.experts;
  result.topk = options.topk;
  result.dtype = dtype_of(options.dtype, "dtype");
  result.activation.kind =
      enumerator(options.activation,
                 std::array{ActivationKind::swiglu, ActivationKind::swiglu_clamped}, "activation");
  result.activation.alpha = options.activation_alpha;
  result.activation.limit = options.activation_limit;
  if (result.activation.kind == ActivationKind::swiglu_clamped &&
      !(std::isfinite(options.activation_alpha) && std::isfinite(options.activation_limit) &&
        options.activation_limit > 0)) {
    throw Error(Code::InvalidValue)
        .at("argument", "activation_limit, activation_alpha")
        .expected("a finite limit above 0 and a finite alpha")
        .found(fmt::format("{}, {}", options.activation_limit, options.activation_alpha));
  }
  result.selector = enumerator(options.selector,
                               std::array{Selector::first, Selector::round_robin,
                                          Selector::least_load, Selector::locality, Selector::hash},
                               "selector");
  result.dedup = options.dedup != 0;
  result.checks =
      enumerator(options.checks, std::array{Checks::off, Checks::counts, Checks::full}, "checks");
  result.bad_ids =
      enumerator(options.bad_ids, std::array{BadIdPolicy::error, BadIdPolicy::drop}, "bad_ids");
  return result;
}

ProcessGroup group_of(const wb_runtime_options& options) {
  constexpr std::int32_t most_ranks = 0xffff;  // a handle's index holds the rank in 16 bits
  if (options.ranks > most_ranks) refuse("ranks", "at most 65535", options.ranks);
  if (options.peer_order == nullptr) return ProcessGroup::identity(options.ranks);
  std::vector<Rank> order;
  for (const std::int32_t rank : column(options.peer_order, options.ranks, "peer_order")) {
    if (rank >= options.ranks) {
      throw Error(Code::PeerOrderInvalid)
          .at("peer_slot", order.size())
          .expected(fmt::format("a rank below {}", options.ranks))
          .found(rank);
    }
    order.emplace_back(rank);
  }
  return {ProcessGroup::identity(1).id(), GroupEpoch{0}, std::move(order)};
}

Placement placement_of(const wb_runtime_options& options) {
  const PlacementVersion version("placement-0");
  if (options.slot_counts == nullptr && options.slot_experts == nullptr) {
    return Placement::contiguous(version, options.experts, options.ranks);
  }
  std::vector<std::vector<std::int32_t>> lists;
  std::int64_t first = 0;
  for (const std::int32_t count : column(options.slot_counts, options.ranks, "slot_counts")) {
    if (count < 0) refuse("slot_counts", "at least 0", count);
    const auto slots = column(options.slot_experts, first + count, "slot_experts")
                           .subspan(static_cast<std::size_t>(first));
    lists.emplace_back(slots.begin(), slots.end());
    first += count;
  }
  return Placement::from_lists(version, options.experts, lists);
}

RoutesView routes_of(const wb_routes& routes) {
  if (routes.tokens < 0) refuse("tokens", "at least 0", routes.tokens);
  if (routes.topk < 1) refuse("topk", "at least 1", routes.topk);
  const std::int64_t size = std::int64_t{routes.tokens} * routes.topk;
  return {routes.tokens, routes.topk, column(routes.experts, size, "experts"),
          column(routes.gates, size, "gates")};
}

}  // namespace waybill::c_api
