// The identity namespaces of a routed row. An integer such as 3 can be an expert, a slot, a rank or
// a position in a process group; each has its own type here and none converts into another.
// Source: reference text 0x01A0.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace waybill {

// An integer id of one namespace. `value` is 0-based. Conversions are explicit in both directions.
template <class Tag, class Rep = std::int32_t>
struct Id {
  using rep = Rep;
  Rep value{};

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  // For indexing arrays that are laid out by this namespace.
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
};

// Logical expert: what the router names. Stable within a checkpoint.
using ExpertId = Id<struct ExpertTag>;
// Physical slot: index in one placement's manifest order. Unique only inside a placement version.
using SlotId = Id<struct SlotTag>;
// Ordinal of a slot among the copies of one logical expert.
using ReplicaId = Id<struct ReplicaTag>;
// Global rank.
using Rank = Id<struct RankTag>;
// Position in one process group's peer order. Not a rank.
using PeerSlot = Id<struct PeerSlotTag>;
using NodeId = Id<struct NodeTag>;
// Position of a route in semantic order on its origin rank: token * k + route slot.
using RouteId = Id<struct RouteTag>;
// Row of the origin rank's hidden states.
using TokenRow = Id<struct TokenRowTag>;
// Which of a token's k choices, in [0, k).
using RouteSlot = Id<struct RouteSlotTag>;
// Index of a layer in the whole model, dense layers counted.
using LayerId = Id<struct LayerTag>;
// Membership epoch of a process group.
using GroupEpoch = Id<struct GroupEpochTag, std::uint64_t>;

// A version label: compared for equality, never ordered.
template <class Tag>
struct Label {
  std::string value;

  Label() = default;
  explicit Label(std::string v) : value(std::move(v)) {}
  bool operator==(const Label&) const = default;
};

using PlacementVersion = Label<struct PlacementVersionTag>;
using CheckpointVersion = Label<struct CheckpointVersionTag>;
using ProcessGroupId = Label<struct ProcessGroupTag>;

}  // namespace waybill

template <class Tag, class Rep>
struct std::hash<waybill::Id<Tag, Rep>> {
  std::size_t operator()(waybill::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
