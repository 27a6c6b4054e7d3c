#include "placement/balance/exact_layer.h"

#include <coin/Cbc_C_Interface.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "placement/balance/assignment.h"
#include "placement/balance/index.h"
#include "placement/balance/rank_contents.h"
#include "placement/balance/slots.h"
#include "waybill/error.h"

namespace waybill {
namespace {

// Experts x ranks x copies of a problem that is tried; with more the search hardly begins.
constexpr std::int64_t kMostSeats = 20'000;
// Columns of one integer program.
constexpr std::size_t kMostContents = 50'000;
// Ratios this close are equal: what CBC's arithmetic tells apart.
constexpr double kProofTolerance = 1e-6;
// Bounds near 1 have few contents and are soon decided, so they are tried first.
constexpr double kFirstStep = 2.5e-4, kStepGrowth = 4;
// Closer than this, one proof that nothing is better costs less than halving the gap further.
constexpr double kLastStep = 1e-3;

using Clock = std::chrono::steady_clock;

enum class Answer { yes, no, unknown };

// Whether contents fill the ranks: times(q) says how many ranks hold content q, count(e, m) is 1
// when expert e has m copies.
class ContentProgram {
 public:
  ContentProgram(const LayerProblem& problem, const std::vector<RankKind>& kinds,
                 std::vector<RankContent> contents)
      : problem_(problem),
        kinds_(kinds),
        contents_(std::move(contents)),
        model_(Cbc_newModel(), &Cbc_deleteModel) {
    for (const RankContent& content : contents_) {
      add_column(static_cast<double>(kinds[at(content.kind)].size()));
    }
    fill_ranks();
    count_copies();
    if (problem.keep_home) keep_homes();
  }

  Answer solve(double seconds) {
    Cbc_setLogLevel(model_.get(), 0);
    Cbc_setMaximumSeconds(model_.get(), seconds);
    Cbc_setMaximumSolutions(model_.get(), 1);
    Cbc_solve(model_.get());
    if (Cbc_bestSolution(model_.get()) != nullptr) return Answer::yes;
    return Cbc_isProvenInfeasible(model_.get()) != 0 ? Answer::no : Answer::unknown;
  }

  // Experts by slot, after yes.
  std::vector<std::int32_t> experts() const {
    SlotLists lists(at(problem_.ranks()));
    std::vector<std::size_t> next(kinds_.size(), 0);
    const double* times = Cbc_bestSolution(model_.get());
    for (std::size_t q = 0; q < contents_.size(); ++q) {
      for (double left = times[q]; left > 0.5; left -= 1) {
        const std::size_t kind = at(contents_[q].kind);
        auto& list = lists[at(kinds_[kind][next[kind]++])];
        for (const SharedCopy& copy : contents_[q].held) list.push_back(copy.expert);
      }
    }
    return slots_of(lists);
  }

 private:
  struct Row {
    std::vector<int> columns;
    std::vector<double> factors;
    void add(std::size_t column, double factor) {
      columns.push_back(static_cast<int>(column));
      factors.push_back(factor);
    }
  };

  std::size_t add_column(double most) {
    Cbc_addCol(model_.get(), fmt::format("c{}", columns_).c_str(), 0, most, 0, 1, 0, nullptr,
               nullptr);
    return columns_++;
  }
  void add_row(const Row& row, char sense, double right) {
    Cbc_addRow(model_.get(), fmt::format("r{}", rows_++).c_str(),
               static_cast<int>(row.columns.size()), row.columns.data(), row.factors.data(), sense,
               right);
  }

  void fill_ranks() {
    std::vector<Row> filled(kinds_.size());
    for (std::size_t q = 0; q < contents_.size(); ++q) filled[at(contents_[q].kind)].add(q, 1);
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      add_row(filled[kind], 'E', static_cast<double>(kinds_[kind].size()));
    }
  }
  void count_copies() {
    const std::size_t most = at(most_copies(problem_));
    std::vector<Row> held(at(problem_.experts()) * most);
    for (std::size_t q = 0; q < contents_.size(); ++q) {
      for (const SharedCopy& copy : contents_[q].held) {
        held[at(copy.expert) * most + at(copy.copies) - 1].add(q, 1);
      }
    }
    for (std::size_t e = 0; e < at(problem_.experts()); ++e) {
      Row one;
      for (std::size_t m = 1; m <= most; ++m) {
        Row& row = held[e * most + m - 1];
        const std::size_t count = add_column(1);
        row.add(count, -static_cast<double>(m));
        add_row(row, 'E', 0);
        one.add(count, 1);
      }
      add_row(one, 'E', 1);
    }
  }
  void keep_homes() {
    std::vector<Row> at_home(at(problem_.experts()));
    for (std::size_t q = 0; q < contents_.size(); ++q) {
      const std::int32_t node = problem_.node[at(kinds_[at(contents_[q].kind)][0])];
      for (const SharedCopy& copy : contents_[q].held) {
        if (problem_.home[at(copy.expert)] == node) at_home[at(copy.expert)].add(q, 1);
      }
    }
    for (const Row& row : at_home) add_row(row, 'G', 1);
  }

  const LayerProblem& problem_;
  const std::vector<RankKind>& kinds_;
  std::vector<RankContent> contents_;
  std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> model_;
  std::size_t columns_ = 0, rows_ = 0;
};

// Closes in on the least ratio from both sides.
class Bisection {
 public:
  Bisection(const LayerProblem& problem, std::span<const std::int32_t> start, double seconds)
      : problem_(problem),
        kinds_(rank_kinds(problem)),
        experts_(start.begin(), start.end()),
        ratio_(Assignment(problem, start).ratio()),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  ExactLayer run() {
    for (double step = kFirstStep; ratio_ - bound_ > kProofTolerance; step *= kStepGrowth) {
      const double within = next(1 + step);
      auto contents = rank_contents(problem_, kinds_, within, kMostContents);
      if (!contents) return end(ProofStatus::bounded);
      const double seconds = std::chrono::duration<double>(end_ - Clock::now()).count();
      if (seconds <= 0) return end(ProofStatus::timed_out);
      ContentProgram program(problem_, kinds_, std::move(*contents));
      switch (program.solve(seconds)) {
        case Answer::no: bound_ = within; break;
        case Answer::unknown: return end(ProofStatus::timed_out);
        case Answer::yes: take(program.experts()); break;
      }
    }
    return end(ProofStatus::optimal);
  }

 private:
  // The ratio to try, `step` at most if that isn't decided yet.
  double next(double step) const {
    const double better = ratio_ - kProofTolerance;
    const double middle = ratio_ - bound_ < kLastStep ? better : (bound_ + ratio_) / 2;
    return step > bound_ ? std::min(step, middle) : middle;
  }
  void take(std::vector<std::int32_t> experts) {
    ratio_ = Assignment(problem_, experts).ratio();
    experts_ = std::move(experts);
  }
  ExactLayer end(ProofStatus status) { return {experts_, {status, std::min(bound_, ratio_)}}; }

  const LayerProblem& problem_;
  std::vector<RankKind> kinds_;
  std::vector<std::int32_t> experts_;  // of the best placement
  double bound_ = 1, ratio_;           // no largest rank time is below the mean
  Clock::time_point end_;
};

void check_size(const LayerProblem& problem) {
  const std::int64_t seats =
      std::int64_t{problem.experts()} * problem.ranks() * most_copies(problem);
  if (seats <= kMostSeats) return;
  throw Error(Code::InvalidValue)
      .at("solver", "exact")
      .at("field", "experts x ranks x copies")
      .expected(fmt::format("at most {}", kMostSeats))
      .found(fmt::format("{} x {} x {} = {}", problem.experts(), problem.ranks(),
                         most_copies(problem), seats))
      .note("solver waybill takes any size");
}

}  // namespace

ExactLayer solve_exactly(const LayerProblem& problem, std::span<const std::int32_t> start,
                         double seconds) {
  check_size(problem);
  static std::mutex one_at_a_time;  // CBC keeps global state while it solves
  const std::scoped_lock lock(one_at_a_time);
  return Bisection(problem, start, seconds).run();
}

}  // namespace waybill
