#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "waybill/balance.h"
#include "waybill/error.h"

namespace nb = nanobind;

namespace waybill::python {
namespace {

using Loads = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// The value that `found` names among `names`, which are listed where it names none.
template <class T, std::size_t N>
T named(std::string_view field, const std::string& found,
        const std::array<std::pair<std::string_view, T>, N>& names) {
  std::string all;
  for (const auto& [known, value] : names) {
    if (known == found) return value;
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(Code::InvalidValue).at("field", field).expected(all).found(found);
}

Solver solver_of(const std::string& found) {
  return named<Solver, 3>("solver", found,
                          {{{name(Solver::waybill), Solver::waybill},
                            {name(Solver::eplb), Solver::eplb},
                            {name(Solver::exact), Solver::exact}}});
}

Locality locality_of(const std::string& found) {
  return named<Locality, 4>("locality", found,
                            {{{"auto", Locality::automatic},
                              {"none", Locality::none},
                              {"soft", Locality::soft},
                              {"hard", Locality::hard}}});
}

Topology topology_of(const std::vector<std::int32_t>& node_of) {
  std::vector<NodeId> nodes;
  for (std::int32_t node : node_of) nodes.emplace_back(node);
  return Topology::of(std::move(nodes));
}

LoadMatrix matrix_of(const Loads& loads, const std::vector<std::int32_t>& layers) {
  std::vector<LayerId> ids;
  for (std::int32_t layer : layers) ids.emplace_back(layer);
  return {std::move(ids), static_cast<std::int32_t>(loads.shape(1)),
          static_cast<std::int32_t>(loads.shape(2)),
          std::vector<double>(loads.data(), loads.data() + loads.size())};
}

using PayOffTuple = std::tuple<double, double, std::int64_t>;  // as PayOff's members

BalancePlan solve(const Loads& loads, const std::vector<std::int32_t>& layers, Cluster& cluster,
                  const std::vector<SlotLists>& in_force, const std::string& solver,
                  const std::string& locality, std::int32_t groups, double min_gain,
                  const std::optional<PayOffTuple>& pay_off,
                  std::optional<std::int32_t> max_changed_slots, std::uint64_t expert_bytes,
                  double churn, double exact_seconds, std::int32_t threads) {
  BalanceOptions options;
  options.solver = solver_of(solver);
  options.locality = locality_of(locality);
  options.groups = groups;
  options.min_gain = min_gain;
  if (pay_off) {
    const auto& [link_gbps, step_us, horizon_steps] = *pay_off;
    options.pay_off = PayOff{link_gbps, step_us, horizon_steps};
  }
  options.max_changed_slots = max_changed_slots;
  options.expert_bytes = expert_bytes;
  options.weights.churn = churn;
  options.exact_seconds = exact_seconds;
  const LoadMatrix load = matrix_of(loads, layers);
  const nb::gil_scoped_release release;
  ThreadPool pool(threads);
  options.pool = &pool;
  return balance(load, cluster, in_force, options);
}

template <class Plan, class Member>
auto text_of(Member Plan::*member) {
  return [member](const Plan& plan) { return std::string(name(plan.*member)); };
}

void bind_plan(nb::module_& module) {
  nb::class_<ObjectiveTerms>(module, "ObjectiveTerms", "One layer under one placement.")
      .def_ro("largest_rank", &ObjectiveTerms::largest_rank, "In the load's unit.")
      .def_ro("balance_ratio", &ObjectiveTerms::balance_ratio, "Largest rank over mean rank.")
      .def_ro("inter_node", &ObjectiveTerms::inter_node,
              "Load that crosses nodes; None unless loads tell source nodes apart.")
      .def_ro("migration_bytes", &ObjectiveTerms::migration_bytes)
      .def_ro("resident_bytes", &ObjectiveTerms::resident_bytes)
      .def_ro("changed_slots", &ObjectiveTerms::changed_slots)
      .def_ro("total", &ObjectiveTerms::total, "The weighted sum of the normalised terms.");
  nb::class_<Proof>(module, "Proof", "What solver exact knows about a layer's best ratio.")
      .def_prop_ro("status", text_of(&Proof::status), "optimal, bounded or timed_out.")
      .def_ro("bound", &Proof::bound, "No placement has a smaller ratio.");
  nb::class_<LayerPlan>(module, "LayerPlan", "The placement of one layer, and why.")
      .def_prop_ro("layer", [](const LayerPlan& plan) { return plan.layer.value; })
      .def_ro("slots", &LayerPlan::slots, "The experts of each rank's slots.")
      .def_ro("before", &LayerPlan::before)
      .def_ro("after", &LayerPlan::after)
      .def_ro("attainable_ratio", &LayerPlan::attainable_ratio)
      .def_ro("proof", &LayerPlan::proof)
      .def_ro("saved_us", &LayerPlan::saved_us)
      .def_ro("migration_us", &LayerPlan::migration_us)
      .def_prop_ro("verdict", text_of(&LayerPlan::verdict))
      .def_ro("reason", &LayerPlan::reason);
  nb::class_<BalancePlan>(module, "BalancePlan", "One plan a layer.")
      .def_ro("layers", &BalancePlan::layers)
      .def_ro("warnings", &BalancePlan::warnings)
      .def_prop_ro("mean_ratio_before", &BalancePlan::mean_ratio_before)
      .def_prop_ro("mean_ratio_after", &BalancePlan::mean_ratio_after)
      .def_prop_ro("changed_slots", &BalancePlan::changed_slots)
      .def_prop_ro("migration_bytes", &BalancePlan::migration_bytes);
}

}  // namespace

void bind_balance(nb::module_& module) {
  bind_plan(module);
  nb::class_<Cluster>(module, "Cluster", "The ranks that a plan is for.")
      .def_ro("slots", &Cluster::slots)
      .def_rw("speed", &Cluster::speed)
      .def_rw("memory_bytes", &Cluster::memory_bytes)
      .def_static("even", &even_cluster, nb::arg("experts"), nb::arg("ranks"), nb::arg("nodes"),
                  nb::arg("slots"))
      .def_static(
          "of",
          [](const std::vector<std::int32_t>& node_of, std::vector<std::int32_t> slots) {
            return Cluster{topology_of(node_of), std::move(slots), {}, {}};
          },
          nb::arg("node_of"), nb::arg("slots"));
  module.def("balance", &solve, nb::arg("loads"), nb::arg("layers"), nb::arg("cluster"),
             nb::arg("in_force"), nb::arg("solver"), nb::arg("locality"), nb::arg("groups"),
             nb::arg("min_gain"), nb::arg("pay_off").none(), nb::arg("max_changed_slots").none(),
             nb::arg("expert_bytes"), nb::arg("churn"), nb::arg("exact_seconds"),
             nb::arg("threads"));
}

}  // namespace waybill::python
