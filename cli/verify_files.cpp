#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "io/safetensors.h"
#include "io/safetensors_set.h"
#include "io/zip_archive.h"
#include "model/checkpoint_checks.h"
#include "model/model_config.h"
#include "placement/formats/json_source.h"
#include "placement/manifest_checks.h"
#include "text.h"
#include "topology/manifest_checks.h"
#include "verify_parts.h"

namespace waybill::cli {
namespace {

// A header's length, a number far below 2^56, has a zero byte that no text has.
bool begins_as_safetensors(std::string_view bytes) {
  return bytes.size() >= 9 && bytes[7] == '\0' && bytes[8] == '{';
}

std::string first_bytes(const std::string& path) {
  std::array<char, 9> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), first.size());
  return {first.data(), static_cast<std::size_t>(file.gcount())};
}

// The conformance files of the reference text hold manifests, among other things.
constexpr std::string_view fixture_placement = "moe-conformance/placement/1";
constexpr std::string_view fixture_topology = "moe-conformance/topology/1";
constexpr std::string_view loads_schema = "waybill-loads-1";

bool is_fixture(const JsonValue& root) {
  if (!root.is(JsonKind::object)) return false;
  const auto schema = root.find("schema");
  return schema && schema->as_string().starts_with("moe-conformance/");
}

// Files of other makers have no schema field: a field that only their kind has tells them.
FileKind kind_of(const JsonValue& root) {
  struct Telling {
    std::string_view text;
    FileKind kind;
  };
  static constexpr std::array schemas{Telling{placement_schema, FileKind::placement},
                                      Telling{fixture_placement, FileKind::placement},
                                      Telling{fixture_topology, FileKind::topology},
                                      Telling{topology_schema, FileKind::topology},
                                      Telling{groups_schema, FileKind::groups},
                                      Telling{loads_schema, FileKind::loads}};
  static constexpr std::array fields{Telling{"placement_version", FileKind::placement},
                                     Telling{"model_type", FileKind::model_config},
                                     Telling{"weight_map", FileKind::safetensors_index}};
  if (!root.is(JsonKind::object)) {
    if (const auto kind = exchanged_kind(root)) return *kind;
    throw root.error(Code::UnknownSchema).expected("an object").found(root.text());
  }
  if (const auto schema = root.find("schema")) {
    for (const auto& [text, kind] : schemas) {
      if (schema->is(JsonKind::string) && schema->as_string() == text) return kind;
    }
    throw schema->error(Code::UnknownSchema)
        .expected(fmt::format("{}, {}, {} or {}", placement_schema, topology_schema, groups_schema,
                              loads_schema))
        .found(schema->text());
  }
  for (const auto& [text, kind] : fields) {
    if (root.find(text)) return kind;
  }
  if (const auto kind = exchanged_kind(root)) return *kind;
  throw root.error(Code::UnknownSchema)
      .expected(
          "a schema, or one of placement_version, model_type and weight_map, or what tells "
          "another system's loads or placement")
      .found("none of them");
}

OpenFile open(const std::string& path) {
  OpenFile file;
  file.result.path = path;
  const Faults faults = Faults::collect([&](Faults&) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      file.result.kind = is_load_folder(path) ? FileKind::loads : FileKind::checkpoint;
      return;
    }
    const bool regular = std::filesystem::is_regular_file(path, ignored);
    const std::string first = regular ? first_bytes(path) : std::string();
    if (begins_as_safetensors(first)) {
      file.result.kind = FileKind::safetensors;
    } else if (is_zip(first) && path.ends_with(".npz")) {
      file.result.kind = FileKind::loads;
    } else {
      file.document = is_yaml_name(path) ? read_yaml_source(path) : read_json_source(path);
      file.result.kind = kind_of(file.document->root());
      if (is_fixture(file.document->root())) {
        file.result.unchecked.emplace_back("all but the fields of a manifest: waybill-conformance");
      }
    }
  });
  file.result.violations = faults.all();
  return file;
}

std::string describe(const ModelConfig& model) {
  return fmt::format("{}: {} of {} layers have experts; d {}, E {}, k {}, d_ff {}", model.family,
                     model.moe_layers.size(), model.layers, model.hidden, model.experts, model.topk,
                     model.ff);
}

void check_topology_file(OpenFile& file, Context& context, bool only_one) {
  std::optional<TopologyManifest> manifest;
  std::optional<Topology> ranks;
  file.check([&](Faults& faults) {
    manifest = read_topology_manifest(*file.document, faults);
    if (faults.empty()) ranks = manifest->topology();
  });
  if (!file.result.violations.empty()) return;
  file.result.holds = fmt::format(
      "{}: {} on {}, {}", manifest->version.value, count(manifest->ranks.size(), "rank"),
      count(manifest->nodes.size(), "node"), count(manifest->nics.size(), "NIC"));
  if (manifest->groups) {
    file.result.holds +=
        fmt::format(", {} of epoch {}", count(manifest->groups->groups.size(), "group"),
                    manifest->groups->epoch.value);
  }
  if (!only_one) return;
  context.groups = manifest->groups;
  context.ranks = std::move(ranks);
  context.topology = std::move(manifest);
}

void check_groups_file(OpenFile& file, Context& context, bool only_one) {
  const TopologyManifest* topology = context.topology ? &*context.topology : nullptr;
  std::optional<GroupsManifest> manifest;
  file.check(
      [&](Faults& faults) { manifest = read_groups_manifest(*file.document, topology, faults); });
  if (topology == nullptr) {
    file.result.unchecked.emplace_back("members of the groups, without one right topology");
  }
  if (!file.result.violations.empty()) return;
  file.result.holds =
      fmt::format("{} of epoch {} for {}", count(manifest->table.groups.size(), "group"),
                  manifest->table.epoch.value, manifest->topology.value);
  if (only_one) context.groups = std::move(manifest->table);
}

// The group that a placement names has its ranks as members.
void check_membership(const Generation& generation, const GroupTable& groups, Faults& faults) {
  if (generation.layers.empty() || generation.group.value.empty()) return;
  const ProcessGroup group = groups.group(generation.group);
  const std::int32_t ranks = generation.layers.begin()->second->ranks();
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    faults.attempt([&] { group.peer_of(Rank{rank}); });
  }
}

void check_placement_file(OpenFile& file, const Context& context) {
  ManifestUse use;
  if (context.model) {
    use.experts = context.model->experts;
    use.layers = context.model->moe_layers;
  } else {
    file.result.unchecked.emplace_back("experts and layers of the model, without one config.json");
  }
  if (context.ranks) {
    use.topology = &*context.ranks;
  } else {
    file.result.unchecked.emplace_back("domains of the slots, without one right topology");
  }
  Generation generation;
  file.check([&](Faults& faults) {
    generation = read_placement_manifest(*file.document, use, faults);
    if (context.groups) check_membership(generation, *context.groups, faults);
  });
  if (!context.groups) {
    file.result.unchecked.emplace_back("ranks in the process group, without one table of groups");
  }
  if (!file.result.violations.empty()) return;
  const Placement& first = *generation.layers.begin()->second;
  std::size_t slots = 0;
  for (const auto& [id, layer] : generation.layers) {
    slots += static_cast<std::size_t>(layer->slots());
  }
  file.result.holds = fmt::format("{}: {} on {}, {} in {}", generation.version.value,
                                  count(static_cast<std::size_t>(first.experts()), "expert"),
                                  count(static_cast<std::size_t>(first.ranks()), "rank"),
                                  count(slots, "slot"), count(generation.layers.size(), "layer"));
}

void check_config_file(OpenFile& file, Context& context, bool only_one) {
  std::optional<ModelConfig> model;
  file.check([&](Faults& faults) { model = read_model_config(*file.document, faults).model; });
  if (!file.result.violations.empty()) return;
  file.result.holds = describe(*model);
  if (only_one) context.model = std::move(model);
}

void check_index_file(OpenFile& file) {
  file.check([&](Faults& faults) {
    const SafetensorsSet set = SafetensorsSet::open_index(file.result.path, faults);
    if (!faults.empty()) return;
    file.result.holds = fmt::format("{} in the shards beside it", count(set.size(), "tensor"));
  });
}

void check_safetensors_file(OpenFile& file) {
  file.check([&](Faults& faults) {
    const SafetensorsFile tensors = SafetensorsFile::open(file.result.path, faults);
    if (!faults.empty()) return;
    std::size_t bytes = 0;
    for (const SafetensorsTensor& tensor : tensors.tensors()) bytes += tensor.bytes.size();
    file.result.holds = fmt::format("{}, {}", count(tensors.tensors().size(), "tensor"),
                                    bytes_text(static_cast<std::int64_t>(bytes)));
  });
}

void check_checkpoint_folder(OpenFile& file, Context& context, bool only_one) {
  file.check([&](Faults& faults) {
    const std::optional<ModelConfig> model = check_checkpoint(file.result.path, faults);
    if (!model) return;
    file.result.holds = describe(*model);
    if (only_one) context.model = model;
  });
}

}  // namespace

std::string count(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string_view name(FileKind kind) {
  switch (kind) {
    case FileKind::placement: return "placement manifest";
    case FileKind::topology: return "topology manifest";
    case FileKind::groups: return "groups manifest";
    case FileKind::model_config: return "model configuration";
    case FileKind::safetensors_index: return "safetensors index";
    case FileKind::safetensors: return "safetensors file";
    case FileKind::checkpoint: return "checkpoint folder";
    case FileKind::loads: return "loads of experts";
    case FileKind::placement_table: return "placement of another system";
  }
  return "unknown";
}

std::vector<VerifiedFile> verify_files(std::span<const std::string> paths) {
  std::vector<OpenFile> files;
  for (const std::string& path : paths) files.push_back(open(path));
  const auto only_one = [&](std::initializer_list<FileKind> kinds) {
    return std::ranges::count_if(files, [&](const OpenFile& file) {
             return file.result.kind && std::ranges::find(kinds, *file.result.kind) != kinds.end();
           }) == 1;
  };
  const bool one_topology = only_one({FileKind::topology});
  const bool one_groups = only_one({FileKind::groups});
  const bool one_model = only_one({FileKind::model_config, FileKind::checkpoint});

  // A kind that others are checked against comes before them.
  Context context;
  for (const FileKind kind :
       {FileKind::safetensors, FileKind::safetensors_index, FileKind::model_config,
        FileKind::checkpoint, FileKind::topology, FileKind::groups, FileKind::placement,
        FileKind::placement_table, FileKind::loads}) {
    for (OpenFile& file : files) {
      if (file.result.kind != kind) continue;
      switch (kind) {
        case FileKind::placement: check_placement_file(file, context); break;
        case FileKind::topology: check_topology_file(file, context, one_topology); break;
        case FileKind::groups: check_groups_file(file, context, one_groups); break;
        case FileKind::model_config: check_config_file(file, context, one_model); break;
        case FileKind::safetensors_index: check_index_file(file); break;
        case FileKind::safetensors: check_safetensors_file(file); break;
        case FileKind::checkpoint: check_checkpoint_folder(file, context, one_model); break;
        case FileKind::placement_table: check_placement_table(file, context); break;
        case FileKind::loads: check_load_file(file, context); break;
      }
    }
  }
  std::vector<VerifiedFile> results;
  results.reserve(files.size());
  for (OpenFile& file : files) results.push_back(std::move(file.result));
  return results;
}

}  // namespace waybill::cli
