// The table that benchmarks print: a measured time beside what bounds it and what others reach.
//
// ceiling_ratio is the share of the ceiling that is reached: of times ceiling / value, of rates
// value / ceiling; 1 is the ceiling itself. peer_ratio is how many times as fast as the peer: of
// times peer / value, of rates value / peer; above 1 Waybill is ahead. All benchmarks mean this.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace waybill::bench {

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  std::size_t size() const { return values_.size(); }
  // Of nearest rank: ceil(q n) in ascending order.
  double quantile(double q) const;
  double median() const { return quantile(0.5); }

 private:
  std::vector<double> values_;
};

struct Peer {
  std::string name;  // with its threads
  Samples times;
};

// Times of one unit. `limit`: what the value may be at most.
struct Row {
  std::string bench, cell, unit;
  Samples times;
  std::optional<double> ceiling;
  std::optional<Peer> peer;
  std::optional<double> limit;
};

void print_header();
void print(const Row& row);

}  // namespace waybill::bench
