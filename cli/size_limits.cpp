#include "size_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "step_options.h"
#include "waybill/error.h"

namespace waybill::cli {
namespace {

constexpr std::int64_t most_values = std::int64_t{1} << 32;  // of rows

void limit(std::string_view command, std::string_view product, std::int64_t value,
           std::int64_t most) {
  if (value <= most) return;
  throw Error(Code::UsageError)
      .at("command", command)
      .at("size", product)
      .expected(fmt::format("at most {}", most))
      .found(value);
}

}  // namespace

void limit_routes(std::string_view command, std::int64_t tokens, std::int64_t topk) {
  limit(command, "tokens x topk", tokens * topk, std::int64_t{1} << 27);
}

void limit_rows(std::string_view command, std::int64_t tokens, std::int64_t hidden) {
  limit(command, "tokens x hidden", tokens * hidden, most_values);
}

void limit_route_rows(std::string_view command, std::int64_t tokens, std::int64_t topk,
                      std::int64_t hidden) {
  limit_routes(command, tokens, topk);
  limit(command, "tokens x topk x hidden", tokens * topk * hidden, most_values);
}

void limit_slot_counts(std::string_view command, const Layout& layout,
                       std::span<const LayerId> layers) {
  std::int64_t slots = 0;
  for (const LayerId layer : layers) {
    slots = std::max<std::int64_t>(slots, layout.generation.layer(layer).slots());
  }
  limit(command, "ranks x slots", layout.topology.ranks() * slots, std::int64_t{1} << 26);
}

}  // namespace waybill::cli
