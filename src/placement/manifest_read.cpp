#include <fmt/format.h>

#include <set>
#include <utility>

#include "io/json_document.h"
#include "placement/slot_names.h"
#include "waybill/error.h"
#include "waybill/placement.h"

namespace waybill {
namespace {

// What every slot of one manifest is checked against.
struct ManifestContext {
  PlacementVersion version;
  CheckpointVersion checkpoint;
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

std::string text_of(const std::optional<JsonValue>& value) {
  return value ? std::string(value->as_string()) : std::string();
}

std::int32_t id_of(const JsonValue& slot, std::string_view name, std::string_view short_name,
                   std::int32_t end, Code out_of_range) {
  const std::optional<JsonValue> value = find_either(slot, name, short_name);
  if (!value) {
    throw slot.error(Code::MissingField)
        .expected(fmt::format("{} (or {})", name, short_name))
        .found("neither");
  }
  const std::int64_t id = value->as_integer();
  if (id < 0 || id >= end) {
    throw value->error(out_of_range).expected(fmt::format("an id in [0, {})", end)).found(id);
  }
  return static_cast<std::int32_t>(id);
}

Slot read_slot(const JsonValue& value, const ManifestContext& context) {
  Slot slot;
  slot.name = text_of(find_either(value, "physical_slot_id", "id"));
  slot.expert = ExpertId{id_of(value, "logical_expert_id", "logical_expert", context.experts,
                               Code::LogicalExpertMismatch)};
  slot.replica = text_of(find_either(value, "replica_id", "replica"));
  slot.rank =
      Rank{id_of(value, "destination_rank", "rank", context.ranks, Code::DestinationRankMismatch)};
  slot.domain = text_of(find_either(value, "topology_domain_id", "domain"));
  slot.parameter_digest = text_of(value.find("parameter_digest"));

  slot.checkpoint = context.checkpoint;
  if (const auto stated = find_either(value, "checkpoint_version", "checkpoint")) {
    slot.checkpoint = CheckpointVersion(std::string(stated->as_string()));
    if (slot.checkpoint != context.checkpoint && !context.checkpoint.value.empty()) {
      throw stated->error(Code::CheckpointMismatch)
          .expected(context.checkpoint)
          .found(slot.checkpoint);
    }
  }
  return slot;
}

std::vector<Slot> read_slots(const JsonValue& list, const ManifestContext& context) {
  std::vector<Slot> slots;
  slots.reserve(list.size());
  for (const JsonValue value : list.elements()) slots.push_back(read_slot(value, context));
  return slots;
}

std::vector<Slot> read_experts_by_rank(const JsonValue& lists, const ManifestContext& context) {
  if (std::cmp_not_equal(lists.size(), context.ranks)) {
    throw lists.error(Code::RankCountMismatch)
        .expected(fmt::format("a list for each of {} ranks", context.ranks))
        .found(lists.size());
  }
  std::vector<Slot> slots;
  std::int32_t rank = 0;
  for (const JsonValue list : lists.elements()) {
    for (const JsonValue value : list.elements()) {
      const std::int64_t expert = value.as_integer();
      if (expert < 0 || expert >= context.experts) {
        throw value.error(Code::LogicalExpertMismatch)
            .expected(fmt::format("an id in [0, {})", context.experts))
            .found(expert);
      }
      Slot& slot = slots.emplace_back();
      slot.expert = ExpertId{static_cast<std::int32_t>(expert)};
      slot.rank = Rank{rank};
      slot.checkpoint = context.checkpoint;
    }
    ++rank;
  }
  return slots;
}

// The placement that `object` holds under "slots" or "experts_by_rank".
std::shared_ptr<const Placement> read_placement(const JsonValue& object,
                                                const ManifestContext& context) {
  const std::optional<JsonValue> by_rank = object.find("experts_by_rank");
  const JsonValue table = by_rank ? *by_rank : object.at("slots");
  std::vector<Slot> slots =
      by_rank ? read_experts_by_rank(table, context) : read_slots(table, context);
  name_unnamed(slots);
  try {
    return std::make_shared<const Placement>(context.version, context.experts, context.ranks,
                                             std::move(slots), context.topology);
  } catch (Error& error) {
    const Error place = table.error(error.code());
    for (const auto& [coordinate, value] : place.where()) error.at(coordinate, value);
    throw;
  }
}

void read_layers(const JsonValue& list, const ManifestContext& context,
                 std::span<const LayerId> wanted, Generation& generation) {
  const std::set<LayerId> model(wanted.begin(), wanted.end());
  for (const JsonValue entry : list.elements()) {
    const JsonValue layer = entry.at("layer");
    const LayerId id{static_cast<std::int32_t>(layer.as_integer(0, 1 << 20))};
    if (!model.contains(id)) {
      throw layer.error(Code::InvalidValue).expected("a MoE layer of the model").found(id);
    }
    if (generation.layers.contains(id)) {
      throw layer.error(Code::DuplicateKey).expected("each layer once").found(id);
    }
    generation.layers.emplace(id, read_placement(entry, context));
  }
  for (LayerId id : wanted) {
    if (!generation.layers.contains(id)) {
      throw list.error(Code::MissingField).at("layer", id).expected("an entry").found("none");
    }
  }
}

void check_count(const JsonValue& root, std::string_view field, std::int32_t expected, Code code) {
  const std::optional<JsonValue> stated = root.find(field);
  if (stated && stated->as_integer() != expected) {
    throw stated->error(code).expected(expected).found(stated->as_integer());
  }
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

Generation read_manifest(const JsonDocument& document, std::int32_t experts, std::int32_t ranks,
                         std::span<const LayerId> layers, const Topology* topology) {
  const JsonValue root = document.root();
  Generation generation;
  generation.version = PlacementVersion(std::string(root.at("placement_version").as_string()));
  if (const auto number = root.find("generation")) {
    generation.number = static_cast<std::uint64_t>(number->as_integer(0));
  }
  generation.checkpoint = CheckpointVersion(text_of(root.find("checkpoint_version")));
  generation.group = ProcessGroupId(text_of(root.find("process_group_id")));
  check_count(root, "logical_experts", experts, Code::LogicalCountMismatch);
  check_count(root, "ranks", ranks, Code::RankCountMismatch);

  const ManifestContext context{generation.version, generation.checkpoint, experts, ranks,
                                topology};
  const JsonValue table = only_table(root);
  if (table.key() == "layers") {
    read_layers(table, context, layers, generation);
  } else {
    const auto placement = read_placement(root, context);
    for (LayerId id : layers) generation.layers.emplace(id, placement);
  }
  return generation;
}

}  // namespace

Generation parse_placement_manifest(std::string_view json, std::string_view file,
                                    std::int32_t experts, std::int32_t ranks,
                                    std::span<const LayerId> layers, const Topology* topology) {
  return read_manifest(JsonDocument::parse(json, file), experts, ranks, layers, topology);
}

Generation read_placement_manifest(const std::string& path, std::int32_t experts,
                                   std::int32_t ranks, std::span<const LayerId> layers,
                                   const Topology* topology) {
  return read_manifest(JsonDocument::read(path), experts, ranks, layers, topology);
}

}  // namespace waybill
