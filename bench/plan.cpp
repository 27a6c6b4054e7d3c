// build_plan beside its floor — every column of the plan read and written once, at the copy rate of
// the same columns in the same run — and beside what frameworks do: a stable sort of route indices
// by send key, its inverse, and prefix sums. What was timed is checked.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "table.h"
#include "waybill/error.h"
#include "waybill/plan.h"
#include "waybill/thread_pool.h"

namespace waybill::bench {
namespace {

constexpr std::int32_t kExperts = 256, kSlots = 288, kRanks = 32, kTopk = 8;
constexpr int kSamples = 101;

// Slots in equal runs over the ranks; the replicas belong to every eighth expert and lie on the
// last ranks.
Placement make_placement() {
  std::vector<std::vector<std::int32_t>> lists(kRanks);
  for (std::int32_t q = 0; q < kSlots; ++q) {
    const std::int32_t expert =
        q < kExperts ? q : (q - kExperts) * (kExperts / (kSlots - kExperts));
    lists[q * kRanks / kSlots].push_back(expert);
  }
  return Placement::from_lists(PlacementVersion("bench"), kExperts, lists);
}

SelectionTable all_replicas(const Placement& placement, SelectionRule rule) {
  SelectionTable table;
  table.rule = rule;
  table.offsets.push_back(0);
  table.ordinal_base.assign(kExperts, 0);
  for (std::int32_t e = 0; e < kExperts; ++e) {
    const auto replicas = placement.replicas(ExpertId{e});
    table.candidates.insert(table.candidates.end(), replicas.begin(), replicas.end());
    table.offsets.push_back(static_cast<std::int32_t>(table.candidates.size()));
  }
  return table;
}

struct Problem {
  std::vector<std::int32_t> experts;
  std::vector<float> gates;
  RoutesView routes;
  Placement placement = make_placement();
  ProcessGroup group = ProcessGroup::identity(kRanks);
  SelectionTable table;

  Problem(std::int32_t tokens, SelectionRule rule)
      : experts(static_cast<std::size_t>(tokens) * kTopk), gates(experts.size(), 1.0F) {
    std::mt19937 random(1);
    for (std::int32_t& e : experts) e = static_cast<std::int32_t>(random() % kExperts);
    routes = {tokens, kTopk, experts, gates};
    table = all_replicas(placement, rule);
  }
};

// The peer's columns, kept between samples as the plan's are.
struct SortedPlan {
  std::vector<std::int32_t> key_of_slot, key, order, merged, position, key_offsets;

  void build(const HostPlan& plan, ThreadPool& pool) {
    const std::size_t routes = plan.slot().size();
    key_of_slot.resize(plan.key_slot().size());
    for (std::size_t k = 0; k < key_of_slot.size(); ++k) {
      key_of_slot[plan.key_slot()[k]] = static_cast<std::int32_t>(k);
    }
    key.resize(routes);
    position.resize(routes);
    key_offsets.assign(key_of_slot.size() + 1, 0);
    for (std::size_t r = 0; r < routes; ++r) {
      key[r] = key_of_slot[plan.slot()[r]];
      ++key_offsets[key[r] + 1];
    }
    std::partial_sum(key_offsets.begin(), key_offsets.end(), key_offsets.begin());
    sort(pool);
    for (std::size_t i = 0; i < routes; ++i) position[order[i]] = static_cast<std::int32_t>(i);
  }

 private:
  // Two threads sort a half each.
  void sort(ThreadPool& pool) {
    order.resize(key.size());
    std::iota(order.begin(), order.end(), 0);
    const auto by_key = [this](std::int32_t a, std::int32_t b) { return key[a] < key[b]; };
    if (pool.threads() == 1) {
      std::stable_sort(order.begin(), order.end(), by_key);
      return;
    }
    const auto middle = order.begin() + std::ssize(order) / 2;
    pool.run(2, [&](std::int32_t half) {
      half == 0 ? std::stable_sort(order.begin(), middle, by_key)
                : std::stable_sort(middle, order.end(), by_key);
    });
    merged.resize(order.size());
    std::merge(order.begin(), middle, middle, order.end(), merged.begin(), by_key);
    order.swap(merged);
  }
};

// Copies of a plan's columns, cut over the threads of a pool.
class ColumnCopy {
 public:
  explicit ColumnCopy(const HostPlan& plan)
      : columns_{plan.slot(),     plan.send_position(), plan.send_order(),   plan.key_offsets(),
                 plan.key_slot(), plan.send_offsets(),  plan.expert_counts()} {
    if (plan.dedup()) {
      columns_.push_back(plan.payload_offsets());
      columns_.push_back(plan.payload_token());
      columns_.push_back(plan.payload_row());
    }
    for (const auto column : columns_) copies_.emplace_back(column.size());
  }

  void run(ThreadPool& pool) {
    const std::size_t threads = static_cast<std::size_t>(pool.threads());
    pool.run(pool.threads(), [this, threads](std::int32_t thread) {
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::size_t begin = columns_[c].size() * thread / threads;
        const std::size_t end = columns_[c].size() * (thread + 1) / threads;
        std::memcpy(copies_[c].data() + begin, columns_[c].data() + begin,
                    (end - begin) * sizeof(std::int32_t));
      }
    });
  }

 private:
  std::vector<std::span<const std::int32_t>> columns_;
  std::vector<std::vector<std::int32_t>> copies_;
};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Without dedup, one allowance for one thread and one for two.
std::optional<double> limit_us(std::int32_t routes, bool dedup, std::int32_t threads) {
  if (routes != 262'144 || dedup) return std::nullopt;
  return threads == 1 ? 1500 : 900;
}

// The timed plan keeps every contract, and its order is the peer's.
void verify(const HostPlan& plan, const Problem& problem, const SortedPlan& sorted) {
  check_plan(plan, problem.routes, problem.placement, problem.group);
  if (!std::ranges::equal(plan.send_order(), sorted.order) ||
      !std::ranges::equal(plan.send_position(), sorted.position) ||
      !std::ranges::equal(plan.key_offsets(), sorted.key_offsets)) {
    throw Error(Code::SendOrderMismatch).expected("the order of the stable sort");
  }
}

void measure(std::int32_t tokens, SelectionRule rule, std::string_view rule_name, bool dedup,
             ThreadPool& pool) {
  const Problem problem(tokens, rule);
  HostPlan plan;
  const PlanOptions options{.dedup = dedup, .pool = &pool};
  const auto rebuild = [&] {
    rebuild_plan(plan, problem.routes, problem.table, problem.placement, problem.group, Rank{0},
                 options);
  };
  rebuild();
  ColumnCopy copy(plan);
  SortedPlan sorted;
  const std::int32_t threads = pool.threads();
  Row row{"plan",
          fmt::format("routes {} {}{} threads {}", tokens * kTopk, rule_name, dedup ? " dedup" : "",
                      threads),
          "us",
          {},
          {},
          Peer{fmt::format("stable_sort, {} thread{}", threads, threads == 1 ? "" : "s"), {}},
          limit_us(tokens * kTopk, dedup, threads)};
  Samples copy_us;
  for (int i = 0; i < kSamples; ++i) {
    row.times.add(1e6 * seconds(rebuild));
    copy_us.add(1e6 * seconds([&] { copy.run(pool); }));
    if (i % 5 == 0) row.peer->times.add(1e6 * seconds([&] { sorted.build(plan, pool); }));
  }
  verify(plan, problem, sorted);
  row.ceiling = copy_us.median();
  print(row);
}

}  // namespace
}  // namespace waybill::bench

int main() {
  using namespace waybill;
  using namespace waybill::bench;
  fmt::print(
      "{} experts, {} slots, {} ranks, k {}; ceiling: the plan's columns copied once on as many "
      "threads; medians\n",
      kExperts, kSlots, kRanks, kTopk);
  print_header();
  ThreadPool one(1);
  ThreadPool two(2);
  for (ThreadPool* pool : {&one, &two}) {
    measure(32768, SelectionRule::cyclic, "cyclic", false, *pool);
    measure(32768, SelectionRule::cyclic, "cyclic", true, *pool);
    measure(32768, SelectionRule::hashed, "hashed", false, *pool);
  }
  for (const std::int32_t tokens : {1, 128, 4096}) {
    measure(tokens, SelectionRule::cyclic, "cyclic", false, one);
  }
}
