// The report of `plan` for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "plan_result.h"
#include "text.h"

namespace waybill::cli {
namespace {

constexpr std::size_t text_matrix_ranks = 16;
constexpr std::size_t row_label_columns = 10;

using Matrix = std::vector<std::vector<std::int64_t>>;

// A table with a label before each row; a note instead when it is wider than the page.
std::string table(std::string_view row_label, const std::vector<std::int64_t>& columns,
                  const Matrix& rows) {
  std::int64_t largest = *std::ranges::max_element(columns);
  for (const auto& row : rows) largest = std::max(largest, *std::ranges::max_element(row));
  const std::size_t width = fmt::formatted_size("{}", largest) + 2;
  if (row_label_columns + width * columns.size() > page_columns) {
    return "(wider than the page; --json prints it)\n";
  }
  std::string text(row_label_columns, ' ');
  for (std::int64_t column : columns) text += fmt::format("{:>{}}", column, width);
  text += '\n';
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += fmt::format("{:<{}}", fmt::format("{} {}", row_label, r), row_label_columns);
    for (std::int64_t cell : rows[r]) text += fmt::format("{:>{}}", cell, width);
    text += '\n';
  }
  return text;
}

std::vector<std::int64_t> numbered(std::size_t count) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<std::int64_t>(i));
  return numbers;
}

// Split vectors as the transport takes them: one row a rank, one column a peer slot.
std::string splits(const PlannedLayer& layer, const ProcessGroup& group) {
  const std::span<const Rank> order = group.peer_order();
  if (std::ranges::is_sorted(order)) {
    return "Peer order is rank order: send splits are the rows, receive splits the columns.\n";
  }
  Matrix send, receive;
  for (std::size_t r = 0; r < layer.plans.size(); ++r) {
    std::vector<std::int64_t>& row = send.emplace_back();
    for (std::size_t p = 0; p < order.size(); ++p) {
      row.push_back(layer.plans[r].send_count(PeerSlot{static_cast<std::int32_t>(p)}));
    }
    const auto counts = layer.receives[r].recv_counts();
    receive.emplace_back(counts.begin(), counts.end());
  }
  const auto columns = numbered(order.size());
  return fmt::format("Send splits, by peer slot\n{}Receive splits, by peer slot\n{}",
                     table("rank", columns, send), table("rank", columns, receive));
}

std::string ledger(const PlannedLayer& layer) {
  const RowLedger& rows = layer.rows;
  const ByteLedger& bytes = layer.bytes;
  std::vector<std::int64_t> received;
  for (const ReceivePlan& receive : layer.receives) received.push_back(receive.rows());
  const double mean = static_cast<double>(rows.routes.value) / static_cast<double>(received.size());
  const double busiest =
      mean > 0 ? static_cast<double>(*std::ranges::max_element(received)) / mean : 1.0;
  std::string text;
  text += field("rows", fmt::format("{} routes = {} local + {} remote, {} dropped; dispatch sends "
                                    "{}; a padded exchange would reserve {}",
                                    rows.routes.value, rows.local.value, rows.remote.value,
                                    rows.dropped.value, rows.payload.value, rows.padded.value));
  text += field("load", fmt::format("busiest rank {:.2f} x the mean", busiest));
  text += field(
      "logical",
      fmt::format("{} dispatch + {} combine between ranks, {} with metadata (from shapes; "
                  "no protocol)",
                  bytes_text(bytes.remote_dispatch.value), bytes_text(bytes.remote_combine.value),
                  bytes_text(bytes.remote_logical.value)));
  text += field("live", fmt::format("peak {} at epoch {}, {} if nothing were ever released",
                                    bytes_text(layer.live.peak.value), layer.live.peak_epoch,
                                    bytes_text(layer.live.sum.value)));
  text += field("measured",
                fmt::format("planned in {} (slowest rank)", time_text(layer.plan_time.value)));
  return text;
}

std::string layer_report(const PlannedLayer& layer, const Layout& layout) {
  std::string text = fmt::format("\nLayer {}\n", layer.layer.value);
  if (layer.plans.size() <= text_matrix_ranks) {
    text += "Rows from each rank to each rank\n";
    text += table("from", numbered(layer.plans.size()), count_matrix(layer, layout.group));
    text += splits(layer, layout.group);
  }
  return text + ledger(layer);
}

}  // namespace

void print_text(const PlanCommand& command, const PlanResult& result) {
  const StepOptions& step = command.step;
  const Layout& layout = result.layout;
  std::vector<std::int64_t> order, slots;
  const Placement& placement = layout.generation.layer(result.layers.front().layer);
  for (std::int32_t r = 0; r < placement.ranks(); ++r) {
    order.push_back(layout.group.rank_of(PeerSlot{r}).value);
    slots.push_back(std::ssize(placement.slots_on(Rank{r})));
  }
  std::string text;
  text += field("routes", fmt::format("{}: {} tokens, E {}, k {}, d {}", result.source, step.tokens,
                                      result.experts, result.topk, result.hidden));
  text += field("ranks", fmt::format("{} on {} node{}, peer order {}", step.ranks, step.nodes,
                                     step.nodes == 1 ? "" : "s", counts_text(order)));
  text += field("placement",
                fmt::format("{}: {} slots ({} by rank), selector {}{}",
                            printable(layout.generation.version.value), placement.slots(),
                            counts_text(slots), step.selector, step.dedup ? ", dedup" : ""));
  for (const PlannedLayer& layer : result.layers) text += layer_report(layer, layout);
  write_text(text);
}

}  // namespace waybill::cli
