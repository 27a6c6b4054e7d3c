#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <utility>

#include "waybill/error.h"
#include "waybill/plan.h"

namespace waybill {
namespace {

void check_counts(std::span<const std::int32_t> counts, std::int32_t local_slots,
                  const ProcessGroup& group) {
  const auto cells = std::int64_t{group.size()} * local_slots;
  if (local_slots < 0 || static_cast<std::int64_t>(counts.size()) != cells) {
    throw Error(Code::PeerCountDisagreement)
        .at("local slots", local_slots)
        .expected(fmt::format("{} counts", cells))
        .found(counts.size());
  }
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    rows += counts[i];
    if (counts[i] >= 0 && rows <= std::numeric_limits<std::int32_t>::max()) continue;
    throw Error(Code::PeerCountDisagreement)
        .at("source rank", group.rank_of(PeerSlot{static_cast<std::int32_t>(i) / local_slots}))
        .at("local slot", static_cast<std::int32_t>(i) % local_slots)
        .expected("counts that sum to at most 2^31-1 rows")
        .found(counts[i] < 0 ? std::int64_t{counts[i]} : rows);
  }
}

}  // namespace

void rebuild_receive_plan(ReceivePlan& plan, std::span<const std::int32_t> counts,
                          std::int32_t local_slots, const ProcessGroup& group) {
  ReceivePlan work = std::exchange(plan, ReceivePlan{});
  check_counts(counts, local_slots, group);
  const std::int32_t peers = group.size();
  const auto count = [&](std::int32_t peer, std::int32_t slot) {
    return counts[static_cast<std::size_t>(peer) * local_slots + slot];
  };

  work.recv_counts_.resize(peers);
  work.recv_offsets_.resize(static_cast<std::size_t>(peers) + 1);
  // While rows are placed, entry q+1 is the slot's next row, so that it ends as the slot's end.
  work.expert_offsets_.assign(static_cast<std::size_t>(local_slots) + 1, 0);
  std::int32_t rows = 0;
  for (std::int32_t peer = 0; peer < peers; ++peer) {
    work.recv_offsets_[peer] = rows;
    for (std::int32_t q = 0; q < local_slots; ++q) {
      rows += count(peer, q);
      work.expert_offsets_[q + 1] += count(peer, q);
    }
    work.recv_counts_[peer] = rows - work.recv_offsets_[peer];
  }
  work.recv_offsets_[peers] = rows;
  std::exclusive_scan(work.expert_offsets_.begin() + 1, work.expert_offsets_.end(),
                      work.expert_offsets_.begin() + 1, 0);

  work.expert_order_.resize(rows);
  work.expert_position_.resize(rows);
  for (const PeerSlot source : group.by_rank()) {
    std::int32_t received = work.recv_offsets_[source.index()];
    for (std::int32_t q = 0; q < local_slots; ++q) {
      const std::int32_t n = count(source.value, q);
      const std::int32_t first =
          std::exchange(work.expert_offsets_[q + 1], work.expert_offsets_[q + 1] + n);
      std::iota(work.expert_order_.data() + first, work.expert_order_.data() + first + n, received);
      std::iota(work.expert_position_.data() + received,
                work.expert_position_.data() + received + n, first);
      received += n;
    }
  }
  plan = std::move(work);
}

ReceivePlan build_receive_plan(std::span<const std::int32_t> counts, std::int32_t local_slots,
                               const ProcessGroup& group) {
  ReceivePlan plan;
  rebuild_receive_plan(plan, counts, local_slots, group);
  return plan;
}

}  // namespace waybill
