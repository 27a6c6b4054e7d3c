#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "waybill/eplb.h"

namespace nb = nanobind;

namespace waybill::python {
namespace {

using Weights = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<nb::numpy, std::int64_t>;

// The public solver's results are 64-bit.
Integers array_of(const std::vector<std::int32_t>& values,
                  std::initializer_list<std::size_t> shape) {
  auto copy = std::make_unique<std::int64_t[]>(values.size());
  std::ranges::copy(values, copy.get());
  std::int64_t* data = copy.release();
  const nb::capsule owner(data,
                          [](void* held) noexcept { delete[] static_cast<std::int64_t*>(held); });
  return {data, shape, owner};
}

using Plan = std::tuple<Integers, Integers, Integers, std::vector<std::string>>;

Plan solve(const Weights& weight, std::int32_t replicas, std::int32_t groups, std::int32_t nodes,
           std::int32_t gpus) {
  const auto layers = static_cast<std::int32_t>(weight.shape(0));
  const auto experts = static_cast<std::int32_t>(weight.shape(1));
  EplbPlan plan;
  {
    const nb::gil_scoped_release release;
    plan = eplb({weight.data(), weight.size()}, layers, experts, {replicas, groups, nodes, gpus});
  }
  const std::size_t l = weight.shape(0), e = weight.shape(1);
  return {array_of(plan.phy2log, {l, static_cast<std::size_t>(plan.replicas)}),
          array_of(plan.log2phy, {l, e, static_cast<std::size_t>(plan.max_copies)}),
          array_of(plan.logcnt, {l, e}), plan.warnings};
}

}  // namespace

void bind_eplb(nb::module_& module) {
  module.def("eplb", &solve, nb::arg("weight"), nb::arg("replicas"), nb::arg("groups"),
             nb::arg("nodes"), nb::arg("gpus"),
             "phy2log [L, R], log2phy [L, E, X], logcnt [L, E] and warnings for weight [L, E].");
}

}  // namespace waybill::python
