#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "placement/manifest_checks.h"
#include "placement/placement_checks.h"
#include "placement/slot_names.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::int64_t id_limit = 1 << 20;  // of experts, ranks and layers, where nothing is known

constexpr std::size_t most_slots = 1 << 20;  // of a layer

// Empty for an absent member.
std::string label_of(const std::optional<JsonValue>& value) {
  return value ? std::string(value->as_label()) : std::string();
}

// The same for what may be stated as an empty text: as good as absent.
std::string label_or_empty(const std::optional<JsonValue>& value) {
  return value && value->as_string().empty() ? std::string() : label_of(value);
}

// The checkpoint whose state all slots of a manifest hold. Where the document doesn't name it,
// slots do: all of them the same one, or none of them.
class CommonCheckpoint {
 public:
  explicit CommonCheckpoint(CheckpointVersion of_document)
      : version_(std::move(of_document)), by_document_(!version_.value.empty()) {}

  const CheckpointVersion& version() const { return version_; }

  // What `slot` holds when it states `stated`. CheckpointMismatch when that is another one.
  CheckpointVersion of_slot(const JsonValue& slot, const std::optional<JsonValue>& stated) {
    if (by_document_ && !stated) return version_;
    CheckpointVersion checkpoint(label_or_empty(stated));
    if (!by_document_ && checkpoint.value.empty()) {
      if (!silent_) silent_ = slot;
      return checkpoint;
    }
    if (version_.value.empty()) version_ = checkpoint;
    if (checkpoint == version_) return checkpoint;
    throw stated->error(Code::CheckpointMismatch)
        .expected(version_)
        .found(checkpoint.value.empty() ? "none" : checkpoint.value);
  }

  void require_all_or_none() const {
    if (by_document_ || version_.value.empty() || !silent_) return;
    throw silent_->error(Code::CheckpointMismatch)
        .expected(fmt::format("{}, as other slots state", version_.value))
        .found("none");
  }

 private:
  CheckpointVersion version_;
  bool by_document_;
  std::optional<JsonValue> silent_;  // the first slot that states none, nor its document
};

// What every slot of one manifest is checked against.
struct ManifestContext {
  PlacementVersion version;
  CommonCheckpoint& checkpoint;
  std::int32_t experts;
  std::int32_t ranks;
  const Topology* topology;
};

// A member under its long name or its short one; both together are one key twice.
std::optional<JsonValue> find_either(const JsonValue& object, std::string_view name,
                                     std::string_view short_name) {
  const std::optional<JsonValue> longer = object.find(name);
  const std::optional<JsonValue> shorter = object.find(short_name);
  if (longer && shorter) {
    throw shorter->error(Code::DuplicateKey)
        .expected(fmt::format("one of {} and {}", name, short_name))
        .found("both");
  }
  return longer ? longer : shorter;
}

std::optional<JsonValue> expert_of(const JsonValue& slot) {
  return find_either(slot, "logical_expert_id", "logical_expert");
}

std::optional<JsonValue> rank_of(const JsonValue& slot) {
  return find_either(slot, "destination_rank", "rank");
}

// The largest ids of a manifest that doesn't state its counts. Ids of a wrong kind or range are
// left to the reading proper.
class LargestIds {
 public:
  void look_at(const JsonValue& object) {
    if (!object.is(JsonKind::object)) return;
    for (const JsonValue member : object.members()) {
      if (!member.is(JsonKind::array)) continue;
      if (member.key() == "slots") look_at_slots(member);
      if (member.key() == "experts_by_rank") look_at_lists(member);
      if (member.key() == "layers") {
        for (const JsonValue layer : member.elements()) look_at(layer);
      }
    }
  }

  std::int32_t experts() const { return static_cast<std::int32_t>(expert_ + 1); }
  std::int32_t ranks() const { return static_cast<std::int32_t>(rank_ + 1); }

 private:
  static void raise(std::int64_t& largest, const std::optional<JsonValue>& id) {
    if (!id || !id->is(JsonKind::integer)) return;
    const std::int64_t value = id->as_integer();
    if (value < id_limit) largest = std::max(largest, value);
  }

  void look_at_slots(const JsonValue& slots) {
    for (const JsonValue slot : slots.elements()) {
      if (!slot.is(JsonKind::object)) continue;
      for (const JsonValue id : slot.members()) {
        const std::string_view key = id.key();
        if (key == "logical_expert_id" || key == "logical_expert") raise(expert_, id);
        if (key == "destination_rank" || key == "rank") raise(rank_, id);
      }
    }
  }

  void look_at_lists(const JsonValue& lists) {
    rank_ = std::max(rank_, std::min<std::int64_t>(std::int64_t(lists.size()), id_limit) - 1);
    for (const JsonValue list : lists.elements()) {
      if (!list.is(JsonKind::array)) continue;
      for (const JsonValue id : list.elements()) raise(expert_, id);
    }
  }

  std::int64_t expert_ = 0, rank_ = 0;  // one of each is the least
};

std::int32_t id_in(const JsonValue& value, std::int32_t end, Code out_of_range) {
  const std::int64_t id = value.as_integer();
  if (id < 0 || id >= end) {
    throw value.error(out_of_range).expected(fmt::format("an id in [0, {})", end)).found(id);
  }
  return static_cast<std::int32_t>(id);
}

JsonValue required(const JsonValue& slot, const std::optional<JsonValue>& value,
                   std::string_view names) {
  if (value) return *value;
  throw slot.error(Code::MissingField).expected(names).found("neither");
}

// Slots in the order of the file. One that has faults is kept with what could be read of it.
struct SlotTable {
  std::vector<Slot> slots;
  bool ids_in_range = true;
};

constexpr std::int32_t unreadable = -1;

void read_slot(const JsonValue& value, const ManifestContext& context, SlotTable& table,
               Faults& faults) {
  Slot slot;
  slot.expert = ExpertId{unreadable};
  slot.rank = Rank{unreadable};
  const auto read = [&](auto part) { faults.attempt(part); };
  read([&] { slot.name = label_of(find_either(value, "physical_slot_id", "id")); });
  read([&] {
    const auto id = required(value, expert_of(value), "logical_expert_id (or logical_expert)");
    slot.expert = ExpertId{id_in(id, context.experts, Code::LogicalExpertMismatch)};
  });
  read([&] { slot.replica = label_of(find_either(value, "replica_id", "replica")); });
  read([&] {
    const auto id = required(value, rank_of(value), "destination_rank (or rank)");
    slot.rank = Rank{id_in(id, context.ranks, Code::DestinationRankMismatch)};
  });
  read([&] { slot.domain = label_of(find_either(value, "topology_domain_id", "domain")); });
  read([&] { slot.parameter_digest = label_of(value.find("parameter_digest")); });
  slot.checkpoint = context.checkpoint.version();
  read([&] {
    slot.checkpoint =
        context.checkpoint.of_slot(value, find_either(value, "checkpoint_version", "checkpoint"));
  });
  if (slot.expert.value == unreadable || slot.rank.value == unreadable) table.ids_in_range = false;
  table.slots.push_back(std::move(slot));
}

void require_slots_at_most(const JsonValue& list, std::size_t slots) {
  if (slots <= most_slots) return;
  throw list.error(Code::InvalidValue)
      .expected(fmt::format("at most {} slots", most_slots))
      .found(slots);
}

SlotTable read_slots(const JsonValue& list, const ManifestContext& context, Faults& faults) {
  require_slots_at_most(list, list.size());
  SlotTable table;
  table.slots.reserve(list.size());
  for (const JsonValue value : list.elements()) {
    if (value.is(JsonKind::object)) {
      read_slot(value, context, table, faults);
    } else {
      table.ids_in_range = false;
      faults.attempt([&] { value.members(); });
    }
  }
  return table;
}

SlotTable read_experts_by_rank(const JsonValue& lists, const ManifestContext& context,
                               Faults& faults) {
  const JsonChildren ranks = lists.elements();
  if (std::cmp_not_equal(lists.size(), context.ranks)) {
    throw lists.error(Code::RankCountMismatch)
        .expected(fmt::format("a list for each of {} ranks", context.ranks))
        .found(lists.size());
  }
  SlotTable table;
  std::int32_t rank = 0;
  for (const JsonValue list : ranks) {
    require_slots_at_most(lists, table.slots.size() + list.size());
    const bool readable = faults.attempt([&] {
      for (const JsonValue value : list.elements()) {
        Slot& slot = table.slots.emplace_back();
        slot.expert = ExpertId{unreadable};
        slot.rank = Rank{rank};
        slot.checkpoint = context.checkpoint.of_slot(list, std::nullopt);
        const bool in_range = faults.attempt([&] {
          slot.expert = ExpertId{id_in(value, context.experts, Code::LogicalExpertMismatch)};
        });
        table.ids_in_range = table.ids_in_range && in_range;
      }
    });
    table.ids_in_range = table.ids_in_range && readable;
    ++rank;
  }
  return table;
}

// Faults of a slot table have no place in the file but the table's.
void report_at(const JsonValue& table, const Error& fault, Faults& faults) {
  Error placed(fault.code());
  for (const auto& [coordinate, value] : fault.where()) placed.at(coordinate, value);
  const Error place = table.error(fault.code());
  for (const auto& [coordinate, value] : place.where()) placed.at(coordinate, value);
  faults.report(placed.expected(fault.expected_text()).found(fault.found_text()));
}

// The placement that `object` holds under "slots" or "experts_by_rank"; null when it has faults.
std::shared_ptr<const Placement> read_placement(const JsonValue& object,
                                                const ManifestContext& context, Faults& faults) {
  const std::optional<JsonValue> by_rank = object.find("experts_by_rank");
  const JsonValue list = by_rank ? *by_rank : object.at("slots");
  const std::size_t before = faults.size();
  SlotTable table =
      by_rank ? read_experts_by_rank(list, context, faults) : read_slots(list, context, faults);
  name_unnamed(table.slots);
  const Faults found = Faults::collect([&](Faults& each) {
    if (!check_counts(context.experts, context.ranks, table.slots.size(), each)) return;
    check_slots(context.version, context.experts, context.ranks, table.slots, table.ids_in_range,
                context.topology, each);
  });
  for (const Error& fault : found.all()) report_at(list, fault, faults);
  if (faults.size() > before) return nullptr;
  return std::make_shared<const Placement>(context.version, context.experts, context.ranks,
                                           std::move(table.slots), context.topology);
}

void read_layers(const JsonValue& list, const ManifestContext& context,
                 const std::optional<std::span<const LayerId>>& wanted, Generation& generation,
                 Faults& faults) {
  std::set<LayerId> model, seen;
  if (wanted) model.insert(wanted->begin(), wanted->end());
  if (list.size() == 0 && model.empty()) {
    throw list.error(Code::InvalidValue).expected("at least one layer").found("none");
  }
  for (const JsonValue entry : list.elements()) {
    faults.attempt([&] {
      const JsonValue layer = entry.at("layer");
      const LayerId id{static_cast<std::int32_t>(layer.as_integer(0, id_limit))};
      if (wanted && !model.contains(id)) {
        throw layer.error(Code::InvalidValue).expected("a MoE layer of the model").found(id);
      }
      if (!seen.insert(id).second) {
        throw layer.error(Code::DuplicateKey).expected("each layer once").found(id);
      }
      if (auto placement = read_placement(entry, context, faults)) {
        generation.layers.emplace(id, std::move(placement));
      }
    });
  }
  for (LayerId id : model) {
    if (seen.contains(id)) continue;
    faults.report(
        list.error(Code::MissingField).at("layer", id).expected("an entry").found("none"));
  }
}

// The count that the manifest is to have: a stated one must be it. When nothing says it,
// `otherwise`.
std::int32_t count_in(const JsonValue& root, std::string_view field,
                      const std::optional<std::int32_t>& wanted, std::int32_t otherwise, Code code,
                      Faults& faults) {
  std::int32_t count = wanted.value_or(otherwise);
  faults.attempt([&] {
    const std::optional<JsonValue> stated = root.find(field);
    if (!stated) return;
    const std::int64_t value = wanted ? stated->as_integer() : stated->as_integer(1, id_limit);
    // With a wrong count, the slots are still checked against what the manifest means.
    if (value >= 1 && value <= id_limit) count = static_cast<std::int32_t>(value);
    if (wanted && value != *wanted) throw stated->error(code).expected(*wanted).found(value);
  });
  return count;
}

// A manifest that tells its slots twice could mean either.
JsonValue only_table(const JsonValue& root) {
  std::optional<JsonValue> table;
  for (std::string_view key : {"layers", "slots", "experts_by_rank"}) {
    const std::optional<JsonValue> found = root.find(key);
    if (found && table) {
      throw found->error(Code::DuplicateKey)
          .expected("one of layers, slots and experts_by_rank")
          .found(fmt::format("{} and {}", table->key(), key));
    }
    if (found) table = found;
  }
  if (!table) {
    throw root.error(Code::MissingField)
        .expected("one of layers, slots and experts_by_rank")
        .found("none");
  }
  return *table;
}

// Files of other makers that use the same fields have schemas of their own.
void check_schema(const JsonValue& root) {
  const std::optional<JsonValue> schema = root.find("schema");
  if (!schema || schema->as_string() == placement_schema) return;
  if (!schema->as_string().starts_with("waybill-")) return;
  throw schema->error(Code::UnknownSchema).expected(placement_schema).found(schema->text());
}

}  // namespace

Generation read_placement_manifest(const JsonDocument& document, const ManifestUse& use,
                                   Faults& faults) {
  const JsonValue root = document.root();
  check_schema(root);
  Generation generation;
  const auto read = [&](auto part) { faults.attempt(part); };
  read([&] { generation.version.value = root.at("placement_version").as_label(); });
  read([&] {
    if (const auto number = root.find("generation")) {
      generation.number = static_cast<std::uint64_t>(number->as_integer(0));
    }
  });
  read([&] { generation.checkpoint.value = label_or_empty(root.find("checkpoint_version")); });
  read([&] { generation.group.value = label_or_empty(root.find("process_group_id")); });
  LargestIds ids;
  if (!use.experts || !use.ranks) ids.look_at(root);
  CommonCheckpoint checkpoint(generation.checkpoint);
  const ManifestContext context{
      .version = generation.version,
      .checkpoint = checkpoint,
      .experts = count_in(root, "logical_experts", use.experts, ids.experts(),
                          Code::LogicalCountMismatch, faults),
      .ranks = count_in(root, "ranks", use.ranks, ids.ranks(), Code::RankCountMismatch, faults),
      .topology = use.topology};

  const JsonValue table = only_table(root);
  if (table.key() == "layers") {
    read_layers(table, context, use.layers, generation, faults);
  } else if (const auto placement = read_placement(root, context, faults)) {
    constexpr LayerId any{0};
    for (LayerId id : use.layers.value_or(std::span(&any, 1))) {
      generation.layers.emplace(id, placement);
    }
  }
  read([&] { checkpoint.require_all_or_none(); });
  generation.checkpoint = checkpoint.version();
  return generation;
}

Generation parse_placement_manifest(std::string_view json, std::string_view file,
                                    std::int32_t experts, std::int32_t ranks,
                                    std::span<const LayerId> layers, const Topology* topology) {
  Faults first;
  return read_placement_manifest(JsonDocument::parse(json, file),
                                 {experts, ranks, layers, topology}, first);
}

Generation read_placement_manifest(const std::string& path, std::int32_t experts,
                                   std::int32_t ranks, std::span<const LayerId> layers,
                                   const Topology* topology) {
  Faults first;
  return read_placement_manifest(JsonDocument::read(path), {experts, ranks, layers, topology},
                                 first);
}

}  // namespace waybill
