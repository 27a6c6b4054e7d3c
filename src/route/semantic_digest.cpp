#include <algorithm>
#include <array>
#include <bit>

#include "route/route_shape.h"
#include "waybill/digest.h"
#include "waybill/error.h"
#include "waybill/routes.h"

namespace waybill {
namespace {

// One route's own fields. Its route id, token and slot follow from its position and the header.
struct Record {
  std::array<std::byte, 8> bytes;
};

void put_u32(std::byte* out, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

void update_u32(Sha256& hash, std::uint32_t value) {
  std::array<std::byte, 4> bytes{};
  put_u32(bytes.data(), value);
  hash.update(bytes);
}

Record record_of(const RoutesView& routes, std::size_t r) {
  const std::int32_t expert = routes.experts[r];
  const float gate = expert == dropped_route ? 0.0F : routes.gates[r];
  Record record{};
  put_u32(record.bytes.data(), static_cast<std::uint32_t>(expert));
  put_u32(record.bytes.data() + 4, std::bit_cast<std::uint32_t>(gate));
  return record;
}

}  // namespace

// Canonical encoding, all integers 32 bits little-endian:
//   "waybill-routes-1\n" | bytes of scope, scope | origin rank | tokens | topk
//   then for each route in semantic order (token-major): expert (-1: dropped) | bits of the gate
// A dropped route's gate has no meaning and counts as +0.
std::string semantic_digest(std::string_view execution_scope, Rank origin,
                            const RoutesView& routes) {
  check_shape(routes);
  Sha256 hash;
  hash.update("waybill-routes-1\n");
  update_u32(hash, static_cast<std::uint32_t>(execution_scope.size()));
  hash.update(execution_scope);
  update_u32(hash, static_cast<std::uint32_t>(origin.value));
  update_u32(hash, static_cast<std::uint32_t>(routes.tokens));
  update_u32(hash, static_cast<std::uint32_t>(routes.topk));

  std::array<Record, 1024> block{};
  const auto size = static_cast<std::size_t>(routes.size());
  for (std::size_t begin = 0; begin < size; begin += block.size()) {
    const std::size_t count = std::min(block.size(), size - begin);
    for (std::size_t i = 0; i < count; ++i) block[i] = record_of(routes, begin + i);
    hash.update(std::as_bytes(std::span(block).first(count)));
  }
  return hash.finish_hex();
}

void check_semantic_digest(std::string_view execution_scope, Rank origin, const RoutesView& routes,
                           std::string_view expected) {
  const std::string found = semantic_digest(execution_scope, origin, routes);
  if (found != expected) {
    throw Error(Code::SemanticDigestMismatch)
        .at("execution_scope", execution_scope)
        .at("origin_rank", origin)
        .expected(expected)
        .found(found);
  }
}

}  // namespace waybill
