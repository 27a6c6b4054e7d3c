// The dependency graph of a step: every edge there, no cycle, epochs in its order.
#include <algorithm>
#include <map>
#include <string_view>

#include "waybill/error.h"
#include "waybill/ledger.h"

namespace waybill {
namespace {

class EventGraph {
 public:
  explicit EventGraph(std::span<const PhaseEvent> events) : events_(events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (!index_.emplace(events[i].name, i).second) {
        throw Error(Code::InvalidValue).at("event", events[i].name).found("stands twice");
      }
    }
    after_.resize(events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      for (const std::string& name : events[i].after) after_[i].push_back(index_of(name, i));
    }
  }

  // Kahn's algorithm: what can't be ordered lies on a cycle or behind one.
  void check_acyclic() {
    std::vector<std::size_t> waits(events_.size());
    std::vector<std::vector<std::size_t>> before(events_.size());
    for (std::size_t i = 0; i < events_.size(); ++i) {
      waits[i] = after_[i].size();
      if (waits[i] == 0) order_.push_back(i);
      for (const std::size_t predecessor : after_[i]) before[predecessor].push_back(i);
    }
    for (std::size_t next = 0; next < order_.size(); ++next) {
      for (const std::size_t successor : before[order_[next]]) {
        if (--waits[successor] == 0) order_.push_back(successor);
      }
    }
    if (order_.size() == events_.size()) return;
    const auto stuck =
        std::find_if(waits.begin(), waits.end(), [](std::size_t w) { return w > 0; });
    throw Error(Code::CyclicEventGraph)
        .at("event", events_[stuck - waits.begin()].name)
        .expected("an order of all events")
        .found("an event that waits for itself");
  }

  void check_epochs() const {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      for (const std::size_t predecessor : after_[i]) {
        if (events_[i].epoch > events_[predecessor].epoch) continue;
        throw Error(Code::EpochBeforeDependency)
            .at("event", events_[i].name)
            .at("after", events_[predecessor].name)
            .expected("an epoch after " + std::to_string(events_[predecessor].epoch))
            .found(events_[i].epoch);
      }
    }
  }

  void check_step_edges() const {
    for (const PhaseEvent& required : step_events()) {
      const auto event = index_.find(required.name);
      if (event == index_.end()) continue;
      for (const std::string& name : required.after) {
        const auto predecessor = index_.find(name);
        if (predecessor == index_.end() || reaches(event->second, predecessor->second)) continue;
        throw Error(Code::MissingDependency)
            .at("event", required.name)
            .expected("after " + name)
            .found("no path");
      }
    }
  }

 private:
  std::size_t index_of(std::string_view name, std::size_t event) const {
    const auto found = index_.find(name);
    if (found == index_.end()) {
      throw Error(Code::MissingDependency)
          .at("event", events_[event].name)
          .expected("a known predecessor")
          .found(name);
    }
    return found->second;
  }

  bool reaches(std::size_t event, std::size_t predecessor) const {
    std::vector<bool> seen(events_.size());
    std::vector<std::size_t> pending{event};
    while (!pending.empty()) {
      const std::size_t i = pending.back();
      pending.pop_back();
      if (i == predecessor) return true;
      if (seen[i]) continue;
      seen[i] = true;
      pending.insert(pending.end(), after_[i].begin(), after_[i].end());
    }
    return false;
  }

  std::span<const PhaseEvent> events_;
  std::map<std::string_view, std::size_t> index_;
  std::vector<std::vector<std::size_t>> after_;  // predecessors of each event
  std::vector<std::size_t> order_;
};

}  // namespace

void check_events(std::span<const PhaseEvent> events) {
  EventGraph graph(events);
  graph.check_acyclic();
  graph.check_epochs();
  graph.check_step_edges();
}

}  // namespace waybill
