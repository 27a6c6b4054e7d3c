// What the router decided, as columns. Route r of a rank is token r / k, route slot r % k, so token
// and slot are positions and only expert and gate are stored. Source: reference text 0x03A, 0x01C.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "waybill/ids.h"

namespace waybill {

// Stored in place of an expert id when admission dropped the route.
inline constexpr std::int32_t dropped_route = -1;

// Columns of one origin rank; owns nothing. Host memory.
struct RoutesView {
  std::int32_t tokens = 0;                // T_l
  std::int32_t topk = 0;                  // k
  std::span<const std::int32_t> experts;  // [T_l * k] logical expert ids, or dropped_route
  std::span<const float> gates;           // [T_l * k] combine weights

  std::int32_t size() const { return tokens * topk; }
  ExpertId expert(RouteId r) const { return ExpertId{experts[r.index()]}; }
  bool dropped(RouteId r) const { return experts[r.index()] == dropped_route; }
  TokenRow token(RouteId r) const { return TokenRow{r.value / topk}; }
  RouteSlot slot(RouteId r) const { return RouteSlot{r.value % topk}; }
};

// What to do with an expert id outside [0, E) other than dropped_route.
enum class BadIdPolicy : std::uint8_t {
  error,  // ExpertIdOutOfRange, with token and route slot
  drop,   // becomes a dropped route and is counted as one
};

struct Admission {
  std::int64_t accepted = 0;
  std::int64_t dropped = 0;       // all dropped routes, out-of-range ones included
  std::int64_t out_of_range = 0;  // dropped by BadIdPolicy::drop
};

// Owning routes of one origin rank.
class Routes {
 public:
  Routes() = default;
  // Copies [tokens, k] row-major ids and gates. Checks sizes (RouteCountMismatch), ids by `policy`
  // and gates (GateNotFinite, with token and route slot; a dropped route's gate isn't read and
  // stored as 0). Gates are never renormalised and dropped routes never reinterpreted (0x00E).
  Routes(std::int32_t tokens, std::int32_t topk, std::int32_t experts,
         std::span<const std::int32_t> ids, std::span<const float> gates,
         BadIdPolicy policy = BadIdPolicy::error);

  RoutesView view() const { return {tokens_, topk_, experts_, gates_}; }
  const Admission& admission() const { return admission_; }

 private:
  std::int32_t tokens_ = 0, topk_ = 0;
  std::vector<std::int32_t> experts_;
  std::vector<float> gates_;
  Admission admission_;
};

// Who a routed row is until its token's rows are summed (0x01C).
struct RouteIdentity {
  Rank origin;
  TokenRow token;
  RouteSlot slot;

  constexpr auto operator<=>(const RouteIdentity&) const = default;
};

// RouteIdentityCollision, with both positions, when two rows have one identity: by a shorter key
// the rows of a token, or equal tokens of two ranks, would be taken for each other (0x03E).
void check_route_identities(std::span<const RouteIdentity> rows);
// The same with the memory of an earlier check, whose size only grows.
void check_route_identities(std::span<const RouteIdentity> rows, std::vector<std::size_t>& order);

// SHA-256 over the semantic tuples (scope, route, origin partition, token, slot, expert, gate) of
// accepted and dropped routes in semantic order, frozen before any physical field exists (0x01A0).
// InvalidValue or RouteCountMismatch for columns that aren't [T_l, k].
std::string semantic_digest(std::string_view execution_scope, Rank origin,
                            const RoutesView& routes);

// Throws SemanticDigestMismatch when the routes no longer have that digest.
void check_semantic_digest(std::string_view execution_scope, Rank origin, const RoutesView& routes,
                           std::string_view expected);

}  // namespace waybill
