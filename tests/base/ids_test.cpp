// The identity namespaces are types: no id is taken for another, nor for a bare integer.
#include "waybill/ids.h"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace waybill {
namespace {

template <class From, class To>
concept Converts = std::constructible_from<To, From> || std::convertible_to<From, To>;

template <class From, class... Ids>
constexpr int converts_into = ((Converts<From, Ids> ? 1 : 0) + ...);

// Each is made from itself alone.
template <class... Ids>
constexpr bool separate = ((converts_into<Ids, Ids...> == 1) && ...);

template <class Integer, class... Ids>
constexpr bool implicit =
    ((std::convertible_to<Integer, Ids> || std::convertible_to<Ids, Integer>) || ...);

static_assert(separate<ExpertId, SlotId, ReplicaId, Rank, PeerSlot, NodeId, RouteId, TokenRow,
                       RouteSlot, LayerId, GroupEpoch>);
static_assert(separate<PlacementVersion, CheckpointVersion, ProcessGroupId>);
static_assert(!implicit<std::int32_t, ExpertId, SlotId, ReplicaId, Rank, PeerSlot, NodeId, RouteId,
                        TokenRow, RouteSlot, LayerId, GroupEpoch>);

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};
static_assert(!Comparable<Rank, PeerSlot>);
static_assert(!Comparable<ExpertId, SlotId>);

TEST(Ids, AreOrderedWithinTheirNamespace) {
  EXPECT_LT(Rank{1}, Rank{2});
  EXPECT_EQ(SlotId{3}.index(), 3U);
}

}  // namespace
}  // namespace waybill
