// Half-open buffer lifetimes and their peak. Source: reference text 0x03D3, 0x03D5.
#include <algorithm>
#include <map>
#include <string_view>

#include "plan/checked_bytes.h"
#include "waybill/error.h"
#include "waybill/ledger.h"

namespace waybill {
namespace {

constexpr std::int64_t kLastEpoch = std::int64_t{1} << 20;

void check_interval(const Buffer& buffer) {
  const auto in_range = [](std::int64_t epoch) { return epoch >= 0 && epoch <= kLastEpoch; };
  if (buffer.bytes.value < 0 || !in_range(buffer.alloc) || !in_range(buffer.release)) {
    throw Error(Code::InvalidValue)
        .at("buffer", buffer.name)
        .at("bytes", buffer.bytes.value)
        .at("alloc", buffer.alloc)
        .at("release", buffer.release)
        .expected("sizes from 0 and epochs in [0, 2^20]");
  }
  if (buffer.release < buffer.alloc) {
    throw Error(Code::EarlyRelease)
        .at("buffer", buffer.name)
        .expected("a release from epoch " + std::to_string(buffer.alloc))
        .found(buffer.release);
  }
}

// Safe release: not before the last reader has completed.
void check_needs(std::span<const Buffer> buffers, std::span<const PhaseEvent> events) {
  std::map<std::string_view, std::int64_t> completes;
  std::int64_t step_ends = 0;
  for (const PhaseEvent& event : events) {
    completes.emplace(event.name, event.epoch);
    step_ends = std::max(step_ends, event.epoch);
  }
  completes.emplace(downstream_consumer, step_ends + 1);
  for (const Buffer& buffer : buffers) {
    if (buffer.release_needs.empty()) continue;
    const auto need = completes.find(buffer.release_needs);
    if (need == completes.end()) {
      throw Error(Code::MissingDependency)
          .at("buffer", buffer.name)
          .expected("an event of the step")
          .found(buffer.release_needs);
    }
    if (buffer.release >= need->second) continue;
    throw Error(Code::EarlyRelease)
        .at("buffer", buffer.name)
        .at("needs", buffer.release_needs)
        .expected("a release from epoch " + std::to_string(need->second))
        .found(buffer.release);
  }
}

void check_aliases(std::span<const Buffer> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& a = buffers[i];
    if (a.alias_group.empty()) continue;
    for (const Buffer& b : buffers.subspan(i + 1)) {
      if (b.alias_group != a.alias_group || a.release <= b.alloc || b.release <= a.alloc) continue;
      throw Error(Code::AliasOverlap)
          .at("alias group", a.alias_group)
          .at("buffer", a.name)
          .at("and", b.name)
          .expected("lifetimes apart")
          .found("both live at epoch " + std::to_string(std::max(a.alloc, b.alloc)));
    }
  }
}

}  // namespace

LiveLedger live_ledger(std::span<const Buffer> buffers, std::span<const PhaseEvent> events) {
  check_events(events);
  std::for_each(buffers.begin(), buffers.end(), check_interval);
  if (!events.empty()) check_needs(buffers, events);
  check_aliases(buffers);

  LiveLedger ledger;
  std::int64_t last = 0;
  for (const Buffer& buffer : buffers) last = std::max(last, buffer.release);
  std::vector<std::int64_t> change(static_cast<std::size_t>(last) + 1, 0);
  for (const Buffer& buffer : buffers) {
    ledger.sum = LiveBytes{checked_sum("all buffers", {ledger.sum.value, buffer.bytes.value})};
    change[buffer.alloc] += buffer.bytes.value;
    change[buffer.release] -= buffer.bytes.value;
  }
  LiveBytes live;
  for (std::size_t epoch = 0; epoch < change.size(); ++epoch) {
    live += LiveBytes{change[epoch]};
    ledger.by_epoch.push_back(live);
    if (live > ledger.peak) {
      ledger.peak = live;
      ledger.peak_epoch = static_cast<std::int64_t>(epoch);
    }
  }
  for (const Buffer& buffer : buffers) {
    if (buffer.alloc <= ledger.peak_epoch && ledger.peak_epoch < buffer.release) {
      ledger.peak_members.push_back(buffer.name);
    }
  }
  return ledger;
}

}  // namespace waybill
