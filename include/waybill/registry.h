// Generations and who may still use them. A generation serves new dispatches while ACTIVE, finishes
// old ones while DRAINING, and is gone once RETIRED, which a live lease forbids.
// Source: reference text 0x02B3.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "waybill/device.h"
#include "waybill/error.h"
#include "waybill/placement.h"

namespace waybill {

enum class GenerationState : std::uint8_t { loaded, active, draining, retired };
std::string_view name(GenerationState state);  // "LOADED", "ACTIVE", …

class PlacementRegistry;

// A reference that keeps a generation from retiring. Released by the destructor, or after an event.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  ~Lease();

  explicit operator bool() const { return generation_ != nullptr; }
  // HandleNotAcquired when the lease never held a generation, HandleReleased when it gave it back.
  const Generation& generation() const;
  // What a combine checks before it reads tables of `version`: GenerationMismatch when the lease
  // holds another generation.
  void require(const PlacementVersion& version) const;
  // Gives the reference back now. HandleReleasedTwice when it was given back before.
  void release();
  // Gives it back once `event` has happened; the lease is empty at return, the generation stays
  // referenced until then.
  void release_after(const Event& event);

 private:
  friend class PlacementRegistry;
  struct State;
  Lease(std::shared_ptr<State> registry, std::shared_ptr<const Generation> generation);
  void require_held(Code code_when_released) const;
  void give_back() noexcept;
  std::shared_ptr<State> registry_;
  std::shared_ptr<const Generation> generation_;
};

// Thread-safe. At most one generation is ACTIVE.
class PlacementRegistry {
 public:
  PlacementRegistry();
  ~PlacementRegistry();

  // Adds a generation as LOADED. PlacementReused when the version is known already.
  void load(Generation generation);
  // LOADED → ACTIVE; the generation that was ACTIVE turns DRAINING in the same step.
  // IllegalGenerationTransition from any other state.
  void activate(const PlacementVersion& version);
  // DRAINING → RETIRED, which needs no live reference (RetireWithLiveReferences, with the count).
  // From any other state IllegalGenerationTransition: a generation drains only when another one is
  // activated.
  void retire(const PlacementVersion& version);

  // The active generation. NoServingGeneration when there is none.
  Lease acquire();
  // That generation, if it is ACTIVE (GenerationNotActive otherwise).
  Lease acquire(const PlacementVersion& version);
  // For a pinned handle: ACTIVE or DRAINING, else GenerationNotLive.
  void require_live(const PlacementVersion& version) const;

  GenerationState state(const PlacementVersion& version) const;
  std::int64_t references(const PlacementVersion& version) const;

 private:
  std::shared_ptr<Lease::State> state_;
};

}  // namespace waybill
