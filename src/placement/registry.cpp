#include "waybill/registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "waybill/error.h"

namespace waybill {

struct RegistryEntry {
  std::shared_ptr<const Generation> generation;  // null once RETIRED: its tables leave memory
  GenerationState state = GenerationState::loaded;
  std::int64_t references = 0;
};

namespace {

std::string_view state_name(const RegistryEntry* entry) {
  return entry == nullptr ? "ABSENT" : name(entry->state);
}

Error mismatch(Code code, const PlacementVersion& version, const RegistryEntry* entry) {
  return Error(code).at("placement", version).found(state_name(entry));
}

// A device that failed runs nothing more, so its events count as past; the fault itself is reported
// where the stream is waited for. Whatever else kept the event from answering tells nothing of the
// work: it is asked again.
bool has_happened(const Event& event) noexcept {
  try {
    return event.ready();
  } catch (const Error& error) {
    return error.code() == Code::DeviceFault;
  } catch (...) {
    return false;
  }
}

}  // namespace

std::string_view name(GenerationState state) {
  switch (state) {
    case GenerationState::loaded: return "LOADED";
    case GenerationState::active: return "ACTIVE";
    case GenerationState::draining: return "DRAINING";
    case GenerationState::retired: return "RETIRED";
  }
  return "?";
}

// Shared by the registry and its leases, which may outlive it.
struct Lease::State {
  struct PendingRelease {
    Event event;
    RegistryEntry* entry;
  };

  std::mutex mutex;  // held by whoever reads or writes the rest
  std::map<std::string, RegistryEntry> entries;
  RegistryEntry* active = nullptr;
  std::vector<PendingRelease> pending;

  RegistryEntry* find(const PlacementVersion& version) {
    const auto found = entries.find(version.value);
    return found == entries.end() ? nullptr : &found->second;
  }
  // Gives back what waited for an event that has happened since.
  void collect() {
    std::erase_if(pending, [](const PendingRelease& release) {
      if (!has_happened(release.event)) return false;
      --release.entry->references;
      return true;
    });
  }
};

Lease::Lease(std::shared_ptr<State> registry, std::shared_ptr<const Generation> generation)
    : registry_(std::move(registry)), generation_(std::move(generation)) {}

Lease::Lease(Lease&&) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    give_back();
    registry_ = std::move(other.registry_);
    generation_ = std::move(other.generation_);
  }
  return *this;
}

Lease::~Lease() { give_back(); }

void Lease::give_back() noexcept {
  if (generation_ == nullptr) return;
  std::lock_guard lock(registry_->mutex);
  --registry_->find(generation_->version)->references;
  generation_.reset();
}

// A lease that gave its generation back still knows its registry; one that never had any doesn't.
void Lease::require_held(Code code_when_released) const {
  if (generation_ != nullptr) return;
  throw Error(registry_ == nullptr ? Code::HandleNotAcquired : code_when_released)
      .expected("a lease that holds a generation")
      .found(registry_ == nullptr ? "one that never acquired" : "one that was released");
}

const Generation& Lease::generation() const {
  require_held(Code::HandleReleased);
  return *generation_;
}

void Lease::require(const PlacementVersion& version) const {
  const PlacementVersion& pinned = generation().version;
  if (pinned != version) {
    throw Error(Code::GenerationMismatch)
        .at("placement", pinned)
        .expected(pinned)
        .found(version)
        .note("a combine resolves the generation of its dispatch, never the active one");
  }
}

void Lease::release() {
  require_held(Code::HandleReleasedTwice);
  give_back();
}

void Lease::release_after(const Event& event) {
  require_held(Code::HandleReleasedTwice);
  std::lock_guard lock(registry_->mutex);
  registry_->pending.push_back({event, registry_->find(generation_->version)});
  generation_.reset();
}

PlacementRegistry::PlacementRegistry() : state_(std::make_shared<Lease::State>()) {}
PlacementRegistry::~PlacementRegistry() = default;

void PlacementRegistry::load(Generation generation) {
  auto loaded = std::make_shared<const Generation>(std::move(generation));
  std::lock_guard lock(state_->mutex);
  state_->collect();
  if (const RegistryEntry* known = state_->find(loaded->version)) {
    throw mismatch(Code::PlacementReused, loaded->version, known).expected("a new version");
  }
  const std::string& version = loaded->version.value;
  state_->entries[version].generation = std::move(loaded);
}

void PlacementRegistry::activate(const PlacementVersion& version) {
  std::lock_guard lock(state_->mutex);
  state_->collect();
  RegistryEntry* next = state_->find(version);
  if (next == nullptr || next->state != GenerationState::loaded) {
    throw mismatch(Code::IllegalGenerationTransition, version, next)
        .at("to", GenerationState::active)
        .expected(name(GenerationState::loaded));
  }
  if (state_->active != nullptr) state_->active->state = GenerationState::draining;
  next->state = GenerationState::active;
  state_->active = next;
}

void PlacementRegistry::retire(const PlacementVersion& version) {
  std::lock_guard lock(state_->mutex);
  state_->collect();
  RegistryEntry* entry = state_->find(version);
  if (entry == nullptr || entry->state != GenerationState::draining) {
    throw mismatch(Code::IllegalGenerationTransition, version, entry)
        .at("to", GenerationState::retired)
        .expected(name(GenerationState::draining));
  }
  if (entry->references != 0) {
    throw Error(Code::RetireWithLiveReferences)
        .at("placement", version)
        .expected("0 live references")
        .found(entry->references);
  }
  entry->state = GenerationState::retired;
  entry->generation.reset();
}

Lease PlacementRegistry::acquire() {
  std::lock_guard lock(state_->mutex);
  state_->collect();
  RegistryEntry* entry = state_->active;
  if (entry == nullptr) {
    throw Error(Code::NoServingGeneration)
        .expected("an ACTIVE generation")
        .found(std::to_string(state_->entries.size()) + " known, none ACTIVE");
  }
  ++entry->references;
  return {state_, entry->generation};
}

Lease PlacementRegistry::acquire(const PlacementVersion& version) {
  std::lock_guard lock(state_->mutex);
  state_->collect();
  RegistryEntry* entry = state_->find(version);
  if (entry == nullptr || entry->state != GenerationState::active) {
    throw mismatch(Code::GenerationNotActive, version, entry)
        .expected(name(GenerationState::active));
  }
  ++entry->references;
  return {state_, entry->generation};
}

void PlacementRegistry::require_live(const PlacementVersion& version) const {
  std::lock_guard lock(state_->mutex);
  const RegistryEntry* entry = state_->find(version);
  const bool live = entry != nullptr && (entry->state == GenerationState::active ||
                                         entry->state == GenerationState::draining);
  if (!live) {
    throw mismatch(Code::GenerationNotLive, version, entry).expected("ACTIVE or DRAINING");
  }
}

GenerationState PlacementRegistry::state(const PlacementVersion& version) const {
  std::lock_guard lock(state_->mutex);
  const RegistryEntry* entry = state_->find(version);
  if (entry == nullptr) {
    throw mismatch(Code::InvalidValue, version, entry).expected("a loaded version");
  }
  return entry->state;
}

std::int64_t PlacementRegistry::references(const PlacementVersion& version) const {
  std::lock_guard lock(state_->mutex);
  state_->collect();
  const RegistryEntry* entry = state_->find(version);
  if (entry == nullptr) {
    throw mismatch(Code::InvalidValue, version, entry).expected("a loaded version");
  }
  return entry->references;
}

}  // namespace waybill
