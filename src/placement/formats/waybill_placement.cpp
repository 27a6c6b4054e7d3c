#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "placement/formats/placement_rows.h"
#include "placement/formats/placements.h"
#include "placement/manifest_checks.h"
#include "waybill/placement.h"

namespace waybill {
namespace {

SlotLists lists_of_placement(const Placement& placement) {
  SlotLists lists;
  for (std::int32_t rank = 0; rank < placement.ranks(); ++rank) {
    auto& list = lists.emplace_back();
    for (SlotId q : placement.slots_on(Rank{rank})) list.push_back(placement.expert_of(q).value);
  }
  return lists;
}

std::vector<std::string> fingerprints_of(const Placement& placement) {
  std::vector<std::string> digests;
  digests.reserve(static_cast<std::size_t>(placement.experts()));
  for (std::int32_t e = 0; e < placement.experts(); ++e) {
    digests.push_back(placement.slot(placement.replicas(ExpertId(e))[0]).parameter_digest);
  }
  return digests;
}

std::vector<LayerId> read_ids(JsonValue list) {
  std::vector<LayerId> ids;
  for (std::int64_t id : list.as_integers(0, 1 << 20))
    ids.emplace_back(static_cast<std::int32_t>(id));
  return ids;
}

// Which copy each slot is, where a layer says so.
void read_copies(JsonValue object, PlacementTable& table) {
  const auto copies = object.find("copies_by_rank");
  if (!copies) return;
  SlotLists lists;
  for (JsonValue list : copies->elements()) {
    auto& own = lists.emplace_back();
    for (std::int64_t n : list.as_integers(0, 1 << 20)) own.push_back(static_cast<std::int32_t>(n));
  }
  const SlotLists& slots = table.slots.back();
  const bool same = std::ranges::equal(lists, slots, {}, &std::vector<std::int32_t>::size,
                                       &std::vector<std::int32_t>::size);
  if (!same) {
    throw copies->error(Code::ShapeMismatch).expected("a copy for each slot of each rank");
  }
  table.replicas.push_back(std::move(lists));
}

void read_record(JsonValue root, PlacementTable& table) {
  if (const auto dense = root.find("dense_layers")) table.dense_layers = read_ids(*dense);
  if (const auto base = root.find("id_base"); base && base->as_integer() != 0) {
    throw base->error(Code::InvalidValue).expected(0).found(base->text());
  }
  if (const auto nodes = root.find("node_of_rank")) {
    for (std::int64_t node : nodes->as_integers(0, 1 << 20)) {
      table.node_of.emplace_back(static_cast<std::int32_t>(node));
    }
    if (std::cmp_not_equal(table.node_of.size(), table.ranks())) {
      throw nodes->error(Code::RankCountMismatch)
          .expected(fmt::format("a node for each of {} ranks", table.ranks()))
          .found(table.node_of.size());
    }
  }
  if (const auto plan = root.find("plan")) {
    table.plan.solver = plan->at("solver").as_string();
    table.plan.ratio_before = plan->at("ratio_before").as_number();
    table.plan.ratio_after = plan->at("ratio_after").as_number();
    table.plan.changed_slots = plan->at("moves").as_integer(0);
    table.plan.migration_bytes = static_cast<std::uint64_t>(plan->at("bytes").as_integer(0));
  }
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ids_text(std::span<const LayerId> layers) {
  std::vector<std::int32_t> ids;
  for (LayerId layer : layers) ids.push_back(layer.value);
  return row_text(ids);
}

// Lists by rank, a rank a line.
std::string lists_text(std::string_view key, const SlotLists& lists) {
  std::string text = fmt::format("\"{}\": [", key);
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    text += (rank == 0 ? "\n  " : ",\n  ") + row_text(lists[rank]);
  }
  return text + "\n ]";
}

// One object a slot, which is where a fingerprint can stand.
std::string slots_text(const PlacementTable& table, std::size_t i) {
  std::string text = "\"slots\": [";
  for (std::size_t rank = 0; rank < table.slots[i].size(); ++rank) {
    for (std::int32_t e : table.slots[i][rank]) {
      text += text.back() == '[' ? "\n  " : ",\n  ";
      text += fmt::format("{{\"logical_expert_id\": {}, \"destination_rank\": {}", e, rank);
      const std::string& digest = table.fingerprints[i][static_cast<std::size_t>(e)];
      if (!digest.empty()) text += ", \"parameter_digest\": " + json_text(digest);
      text += '}';
    }
  }
  return text + "\n ]";
}

// Whether some layer's copies don't just count up; the copies of all are stated then.
bool states_copies(const PlacementTable& table) {
  for (std::size_t i = 0; i < table.replicas.size(); ++i) {
    if (table.replicas[i] != replica_numbers(table.slots[i], table.experts)) return true;
  }
  return false;
}

std::string layer_text(const PlacementTable& table, std::size_t i, bool with_copies) {
  std::string text = table.fingerprints.empty() ? lists_text("experts_by_rank", table.slots[i])
                                                : slots_text(table, i);
  if (with_copies) text += ",\n " + lists_text("copies_by_rank", table.replicas[i]);
  return text;
}

std::string table_text(const PlacementTable& table) {
  const bool with_copies = states_copies(table);
  if (table.every_layer) return layer_text(table, 0, with_copies);
  std::string text = "\"layers\": [";
  for (std::size_t i = 0; i < table.slots.size(); ++i) {
    text += fmt::format("{}\n {{\"layer\": {}, {}}}", i == 0 ? "" : ",", table.layers[i].value,
                        layer_text(table, i, with_copies));
  }
  return text + "\n ]";
}

std::string load_text(const LoadProvenance& load) {
  return fmt::format(
      "{{\"unit\": \"{}\", \"phase\": \"{}\", \"aggregation\": \"{}\", \"window\": {}, "
      "\"checkpoint\": {}, \"placement\": {}}}",
      name(load.unit), name(load.phase), name(load.aggregation), json_text(load.window),
      json_text(load.checkpoint.value), json_text(load.placement.value));
}

}  // namespace

PlacementTable waybill_placement(const JsonDocument& document, const FileHints& hints) {
  const JsonValue root = document.root();
  Faults first;
  const Generation generation =
      read_placement_manifest(document, ManifestUse{.experts = hints.experts}, first);

  PlacementTable table;
  table.version = generation.version;
  table.generation = generation.number;
  table.checkpoint = generation.checkpoint;
  table.group = generation.group;
  table.every_layer = !root.find("layers");
  bool stated = false;
  const auto take = [&](LayerId layer, JsonValue object) {
    const Placement& placement = generation.layer(layer);
    table.experts = placement.experts();
    table.slots.push_back(lists_of_placement(placement));
    table.fingerprints.push_back(fingerprints_of(placement));
    stated = stated || std::ranges::any_of(table.fingerprints.back(),
                                           [](const auto& digest) { return !digest.empty(); });
    read_copies(object, table);
  };
  if (table.every_layer) {
    take(generation.layers.begin()->first, root);
  } else {
    for (JsonValue object : root.at("layers").elements()) {
      const LayerId layer(static_cast<std::int32_t>(object.at("layer").as_integer()));
      table.layers.push_back(layer);
      take(layer, object);
    }
  }
  if (table.slots.empty()) throw root.error(Code::MissingField).expected("layers").found("none");
  if (!stated) table.fingerprints.clear();
  if (!table.replicas.empty() && table.replicas.size() != table.slots.size()) {
    throw root.error(Code::MissingField).expected("copies_by_rank in every layer or in none");
  }
  read_record(root, table);
  return table;
}

std::string waybill_text(const PlacementTable& table) {
  const std::string version = table.version.value.empty() ? "placement" : table.version.value;
  std::string text = fmt::format(
      "{{\n \"placement_version\": {},\n \"generation\": {},\n \"process_group_id\": {},\n"
      " \"checkpoint_version\": {},\n \"logical_experts\": {},\n \"ranks\": {},\n"
      " \"id_base\": 0,\n \"dense_layers\": {},\n",
      json_text(version), table.generation, json_text(table.group.value),
      json_text(table.checkpoint.value), table.experts, table.ranks(),
      ids_text(table.dense_layers));
  if (!table.node_of.empty()) {
    std::vector<std::int32_t> nodes;
    for (NodeId node : table.node_of) nodes.push_back(node.value);
    text += fmt::format(" \"node_of_rank\": {},\n", row_text(nodes));
  }
  if (!table.plan.solver.empty()) {
    text += fmt::format(
        " \"plan\": {{\"solver\": {}, \"ratio_before\": {}, \"ratio_after\": {}, \"moves\": {}, "
        "\"bytes\": {}}},\n \"load\": {},\n",
        json_text(table.plan.solver), table.plan.ratio_before, table.plan.ratio_after,
        table.plan.changed_slots, table.plan.migration_bytes, load_text(table.load));
  }
  return text + " " + table_text(table) + "\n}\n";
}

}  // namespace waybill
