#include "conformance/fence.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "waybill/registry.h"

namespace waybill::conformance {
namespace {

std::optional<Code> refusal(const std::function<void()>& operation) {
  try {
    operation();
    return std::nullopt;
  } catch (const Error& error) {
    return error.code();
  }
}

Generation generation(const PlacementVersion& version, std::uint64_t number) {
  Generation generation;
  generation.version = version;
  generation.number = number;
  generation.layers.emplace(
      LayerId{0}, std::make_shared<const Placement>(Placement::contiguous(version, 1, 1)));
  return generation;
}

// The words of an operation that name a version and a handle.
std::string word_from(const std::string& text, std::string_view start) {
  const std::size_t begin = text.find(start);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_first_of(" )", begin) - begin);
}

// Two generations and one handle: operations of the fence by their text.
class Fence {
 public:
  Fence(PlacementVersion first, PlacementVersion second, std::uint64_t number, std::string handle)
      : first_(std::move(first)), second_(std::move(second)), name_(std::move(handle)) {
    registry_.load(generation(first_, number));
    registry_.load(generation(second_, number + 1));
    const std::string& v = first_.value;
    const std::string& w = second_.value;
    const std::string& h = name_;
    operations_ = {
        {"activate " + v,
         [this] {
           registry_.activate(first_);
           stage_ = Stage::first;
         }},
        {h + " acquires one " + v + " reference", [this] { handle_ = registry_.acquire(first_); }},
        {"activate " + w + " for new dispatches",
         [this] {
           registry_.activate(second_);
           stage_ = Stage::superseded;
         }},
        // Draining is part of the successor's activation: the text gives it a step of its own.
        {v + " enters DRAINING", [this] { stage_ = Stage::draining; }},
        {"retire " + v, [this] { registry_.retire(first_); }},
        {"retire " + v + " while ACTIVE", [this] { registry_.retire(first_); }},
        {"combine with " + h + " through " + v + " metadata", [this] { combine(handle_, first_); }},
        {h + " releases its reference", [this] { handle_.release(); }},
        {"combine with a handle that never acquired", [this] { combine(Lease(), first_); }},
        {"new dispatch acquires", [this] { acquired_ = registry_.acquire().generation().number; }},
        {"new dispatch asks for " + v, [this] { registry_.acquire(first_); }},
        {"combine " + h + " with " + w + " offsets", [this] { combine(handle_, second_); }},
        {"require_live(" + v + ")", [this] { registry_.require_live(first_); }},
        {"release " + h + " again", [this] { handle_.release(); }},
        {"combine with " + h + " again", [this] { combine(handle_, first_); }},
    };
  }

  bool knows(const std::string& operation) const { return operations_.contains(operation); }
  std::optional<Code> run(const std::string& operation) {
    return refusal(operations_.at(operation));
  }
  std::string first_state() const {
    if (stage_ == Stage::superseded) return "ACTIVE_SUPERSEDED";
    return state_name(registry_.state(first_));
  }
  std::string second_state() const { return state_name(registry_.state(second_)); }
  std::int64_t references() const { return registry_.references(first_); }
  std::uint64_t acquired() const { return acquired_; }

 private:
  enum class Stage : std::uint8_t { first, superseded, draining };

  // The text has no name for a generation that is held ready.
  static std::string state_name(GenerationState state) {
    return state == GenerationState::loaded ? "ABSENT" : std::string(name(state));
  }
  void combine(const Lease& handle, const PlacementVersion& tables) {
    handle.require(tables);
    registry_.require_live(tables);
  }

  PlacementRegistry registry_;
  PlacementVersion first_, second_;
  std::string name_;
  Lease handle_;
  Stage stage_ = Stage::first;
  std::uint64_t acquired_ = 0;
  std::map<std::string, std::function<void()>> operations_;
};

struct FenceNames {
  PlacementVersion first, second;
  std::uint64_t number = 0;
  std::string handle;

  std::unique_ptr<Fence> fence() const {
    return std::make_unique<Fence>(first, second, number, handle);
  }
};

// The successor is the version that is activated for new dispatches, the handle the one that
// acquires.
FenceNames read_names(const Value& root) {
  FenceNames names;
  names.first = PlacementVersion(root.at("placement_version").text());
  names.number = static_cast<std::uint64_t>(root.at("generation").integer());
  for (const Value& step : root.at("fence").at("steps").elements()) {
    const std::string operation = step.at("op").text();
    if (operation.ends_with(" for new dispatches")) {
      names.second = PlacementVersion(word_from(operation, "placement-"));
    }
    if (operation.find(" acquires one ") != std::string::npos) {
      names.handle = operation.substr(0, operation.find(' '));
    }
  }
  if (names.handle.empty() || names.second.value.empty() || names.second == names.first) {
    throw root.at("fence")
        .error(Code::IllegalGenerationTransition)
        .expected("a handle that acquires and a successor that is activated")
        .found("none");
  }
  return names;
}

void check_verdict(Report& report, const Value& stated, std::optional<Code> refused) {
  const auto error = stated.find("error");
  Code code = Code::IllegalGenerationTransition;
  if (refused) {
    code = *refused;
  } else if (error && error->json().is_string()) {
    find_code(error->text(), code);
  }
  report.expect(stated, "verdict", refused ? "denied" : "allowed", {code});
  if (refused) {
    report.expect(stated, "error", name(*refused), {code});
  } else if (error) {
    report.violation(code, *error, "no error", error->json());
  }
}

bool run_known(Report& report, Fence& fence, const Value& stated) {
  const std::string operation = stated.at("op").text();
  report.expect_that(fence.knows(operation), Code::IllegalGenerationTransition, stated.at("op"),
                     "an operation of the fence");
  if (!fence.knows(operation)) return false;
  check_verdict(report, stated, fence.run(operation));
  return true;
}

void check_step(Report& report, Fence& fence, const FenceNames& names, const Value& step) {
  if (!run_known(report, fence, step)) return;
  const Value state = step.at("v17_state");
  if (state.json() != fence.first_state() && state.json() == "RETIRED" && fence.references() > 0) {
    report.violation(Code::RetireWithLiveReferences, state, fence.first_state(), state.json());
  }
  report.expect(state, fence.first_state(), {Code::IllegalGenerationTransition});
  report.expect(step, "v18_state", fence.second_state(), {Code::IllegalGenerationTransition});
  report.expect(step, "v17_refcount", fence.references(), {Code::RefcountMismatch});
  if (const auto handle = step.find("handle")) {
    report.expect(*handle, names.handle, {Code::HandleNotAcquired});
  }
  if (const auto pinned = step.find("handle_generation")) {
    report.expect(*pinned, names.number, {Code::GenerationMismatch});
  }
}

// A probe changes the registry, so each one starts from the beginning.
void check_probe(Report& report, const FenceNames& names, const Value& steps, const Value& probe) {
  const auto fence = names.fence();
  const std::int64_t after = probe.at("after_step").integer();
  for (const Value& step : steps.elements()) {
    if (step.at("step").integer() > after) break;
    const std::string operation = step.at("op").text();
    if (fence->knows(operation)) fence->run(operation);
  }
  if (!run_known(report, *fence, probe)) return;
  if (const auto stated = probe.find("expected_generation")) {
    report.expect(*stated, fence->acquired(), {Code::GenerationMismatch});
  }
}

// The manifest is printed at the step that brought its state.
void check_printed_state(Report& report, const Value& root, const Value& steps) {
  for (const Value& step : steps.elements()) {
    if (step.at("v17_state").json() != root.at("state").json()) continue;
    report.expect(root, "in_flight_refcount", step.at("v17_refcount").json(),
                  {Code::RefcountMismatch});
    return;
  }
  report.violation(Code::IllegalGenerationTransition, root.at("state"), "a state of the fence",
                   root.at("state").json());
}

// A registry whose first generation has that state.
std::unique_ptr<Fence> fence_in_state(const FenceNames& names, const std::string& state) {
  auto fence = names.fence();
  fence->run("activate " + names.first.value);
  if (state == "ACTIVE") return fence;
  fence->run("activate " + names.second.value + " for new dispatches");
  fence->run(names.first.value + " enters DRAINING");
  if (state == "RETIRED") fence->run("retire " + names.first.value);
  return fence;
}

}  // namespace

void check_generation_states(Check& check, const Value& root) {
  const FenceNames names = read_names(root);
  for (const auto& [state, stated] : root.at("states").members()) {
    const auto fence = fence_in_state(names, state);
    check.report.expect_that(fence->first_state() == state, Code::IllegalGenerationTransition,
                             stated, "a state of the fence");
    check.report.expect(stated, "new_dispatch",
                        !fence->run("new dispatch asks for " + names.first.value),
                        {Code::GenerationNotActive});
    check.report.expect(stated, "pinned_combine",
                        !fence->run("require_live(" + names.first.value + ")"),
                        {Code::GenerationNotLive});
  }
  for (const Value& transition : root.at("transitions").elements()) {
    const auto fence = fence_in_state(names, transition.at("from").text());
    const std::string to = transition.at("to").text();
    const bool known = fence->first_state() == transition.at("from").text();
    if (to == "RETIRED") {
      fence->run("retire " + names.first.value);
    } else {
      fence->run("activate " + names.second.value + " for new dispatches");
      fence->run(names.first.value + " enters DRAINING");
    }
    check.report.expect_that(
        known && fence->first_state() == to && transition.at("from").json() != to,
        Code::IllegalGenerationTransition, transition, "a transition of the fence");
  }
}

void check_fence(Check& check, const Value& root) {
  const FenceNames names = read_names(root);
  const auto fence = names.fence();
  const Value steps = root.at("fence").at("steps");
  std::int64_t number = 0;
  for (const Value& step : steps.elements()) {
    ++number;
    check.report.guard(step, [&] {
      check.report.expect(step, "step", number, {Code::IllegalTransition});
      check_step(check.report, *fence, names, step);
    });
  }
  for (const Value& probe : root.at("fence").at("probes").elements()) {
    check.report.guard(probe, [&] { check_probe(check.report, names, steps, probe); });
  }
  check_printed_state(check.report, root, steps);
}

}  // namespace waybill::conformance
