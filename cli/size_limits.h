// Sizes that are refused before anything of them is allocated: what a command holds grows with
// them, to tens of gigabytes at the limits. Each throws UsageError with the product's name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "waybill/ids.h"

namespace waybill::cli {

struct Layout;

// `command` as it is typed, e.g. "waybill plan".
void limit_routes(std::string_view command, std::int64_t tokens, std::int64_t topk);
void limit_rows(std::string_view command, std::int64_t tokens, std::int64_t hidden);
// One row a route.
void limit_route_rows(std::string_view command, std::int64_t tokens, std::int64_t topk,
                      std::int64_t hidden);
// Every rank counts the routes of every slot.
void limit_slot_counts(std::string_view command, const Layout& layout,
                       std::span<const LayerId> layers);

}  // namespace waybill::cli
