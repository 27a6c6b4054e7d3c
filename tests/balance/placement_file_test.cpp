// Placements of every format: what is read, what is refused, what comes back.
#include "waybill/placement_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "io/text_file.h"
#include "io/yaml_document.h"
#include "property/property.h"
#include "support/fault.h"
#include "support/placement_tables.h"
#include "support/temporary_folder.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::two_layers;

FileHints over(std::int32_t ranks) {
  FileHints hints;
  hints.ranks = ranks;
  return hints;
}

const auto placement_formats = {FileFormat::waybill, FileFormat::sglang,       FileFormat::vllm,
                                FileFormat::ascend,  FileFormat::tensorrt_llm, FileFormat::eplb};

std::string file_of(FileFormat format) {
  return format == FileFormat::tensorrt_llm ? "placement.yaml" : "placement.json";
}

TEST(PlacementFile, EveryFormatReadsBackWhatItWrote) {
  const TemporaryFolder folder;
  const PlacementTable table = two_layers();
  for (FileFormat format : placement_formats) {
    const std::string path = folder.file(file_of(format));
    write_placement_table(path, format, table);
    EXPECT_FALSE(holds_loads(path));
    FileHints hints = over(2);
    hints.dense_layers = table.dense_layers;
    const PlacementTable back = read_placement_table(path, hints);
    EXPECT_EQ(back.format, format);
    EXPECT_EQ(back.slots, table.slots) << name(format);
    EXPECT_EQ(back.layers, table.layers) << name(format);
    EXPECT_EQ(back.experts, 4);
    // Through our schema and back: the same text.
    const std::string neutral = folder.file("neutral.json");
    write_placement_table(neutral, FileFormat::waybill, back);
    EXPECT_EQ(placement_text(format, read_placement_table(neutral)), placement_text(format, table));
  }
}

TEST(PlacementFile, TensorrtLlmYamlIsReadInBlockAndFlowStyle) {
  const std::string path = std::string(WAYBILL_TEST_DATA) + "/load_files/balancer.yaml";
  const PlacementTable table = read_placement_table(path, over(2));
  EXPECT_THAT(table.layers, ElementsAre(LayerId(3), LayerId(5)));
  EXPECT_EQ(table.slots[1], (SlotLists{{3, 2, 1}, {0, 3, 2}}));
}

TEST(PlacementFile, OneListOfVllmServesEveryLayer) {
  const TemporaryFolder folder;
  const PlacementTable table =
      read_placement_table(folder.write("p.json", "[0, 1, 2, 0]"), over(2));
  EXPECT_TRUE(table.every_layer);
  EXPECT_THAT(lists_for(table, std::vector{LayerId(7)}), ElementsAre(SlotLists{{0, 1}, {2, 0}}));
  EXPECT_EQ(placement_text(FileFormat::vllm, table), "[0,1,2,0]\n");
  EXPECT_EQ(fault([&] { placement_text(FileFormat::ascend, table); }).code(), Code::MissingField);
}

TEST(PlacementFile, UnequalSlotsHaveNoPlaceInEqualSlotFormats) {
  PlacementTable table = two_layers();
  table.slots[1] = {{3, 2, 1, 0}, {0, 3}};
  for (FileFormat format : placement_formats) {
    if (format == FileFormat::waybill) continue;
    const Error error = fault([&] { placement_text(format, table); });
    EXPECT_EQ(error.code(), Code::SlotsNotEqual) << name(format);
    EXPECT_EQ(error.coordinate("layer"), "3");
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("p.json");
  write_placement_table(path, FileFormat::waybill, table);
  EXPECT_EQ(read_placement_table(path).slots, table.slots);
}

TEST(PlacementFile, OurSchemaKeepsWhatOthersLeaveOut) {
  PlacementTable table = two_layers();
  table.version = PlacementVersion("p7");
  table.generation = 7;
  table.checkpoint = CheckpointVersion("c");
  table.group = ProcessGroupId("g");
  table.node_of = {NodeId(0), NodeId(1)};
  table.fingerprints = {{"a", "b", "c", "d"}, {"e", "f", "g", "h"}};
  table.replicas = {{{1, 0, 0}, {0, 0, 1}}, {{0, 1, 0}, {0, 1, 0}}};
  table.plan = {"waybill", 1.5, 1.25, 3, 99};
  const TemporaryFolder folder;
  const std::string path = folder.file("p.json");
  write_placement_table(path, FileFormat::waybill, table);
  const PlacementTable back = read_placement_table(path);
  EXPECT_EQ(back.version, table.version);
  EXPECT_EQ(back.generation, table.generation);
  EXPECT_EQ(back.checkpoint, table.checkpoint);
  EXPECT_EQ(back.group, table.group);
  EXPECT_EQ(back.node_of, table.node_of);
  EXPECT_EQ(back.fingerprints, table.fingerprints);
  EXPECT_EQ(back.replicas, table.replicas);
  EXPECT_EQ(back.dense_layers, table.dense_layers);
  EXPECT_EQ(back.plan.solver, "waybill");
  EXPECT_EQ(back.plan.migration_bytes, 99U);
  EXPECT_EQ(placement_text(FileFormat::waybill, back), read_text_file(path, 1 << 20));
}

TEST(PlacementFile, CopiesOfAllLayersAreKeptWhenThoseOfOneCountUp) {
  PlacementTable table = two_layers();
  table.replicas = {{{1, 0, 0}, {0, 0, 1}}, replica_numbers(table.slots[1], table.experts)};
  const TemporaryFolder folder;
  const std::string path = folder.file("p.json");
  write_placement_table(path, FileFormat::waybill, table);
  EXPECT_EQ(read_placement_table(path).replicas, table.replicas);
}

TEST(PlacementFile, ManifestsMayBePacked) {
  constexpr std::string_view packed(  // {"placement_version":"p","experts_by_rank":[[0],[1]]}
      "\037\213\010\000\000\000\000\000\002\003\253\126\052\310\111\114\116\315"
      "\115\315\053\211\057\113\055\052\316\314\317\123\262\122\052\120\322\121"
      "\112\255\050\110\055\052\051\216\117\252\214\057\112\314\313\126\262\212"
      "\216\066\210\325\211\066\214\215\255\005\000\255\070\235\153\065\000\000"
      "\000",
      73);
  const TemporaryFolder folder;
  EXPECT_EQ(read_placement_table(folder.write("p.json.gz", packed)).slots,
            (std::vector<SlotLists>{{{0}, {1}}}));
}

TEST(PlacementFile, LayerNumbersAloneSizeNothing) {
  PlacementTable table = two_layers();
  table.layers.back() = LayerId((1 << 20) - 1);
  const Error error = fault([&] { placement_text(FileFormat::sglang, table); });
  EXPECT_EQ(error.code(), Code::MissingField);
  EXPECT_EQ(error.coordinate("layer"), "3");
}

struct PlacementFault {
  const char* name;
  std::string text;
  Code code;
  std::string named;
  std::string file = "p.json";
};
void PrintTo(const PlacementFault& fault, std::ostream* out) { *out << fault.name; }

class BadPlacementFile : public ::testing::TestWithParam<PlacementFault> {};

TEST_P(BadPlacementFile, IsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write(GetParam().file, GetParam().text);
  const Error error = fault([&] { read_placement_table(path, over(2)); });
  EXPECT_EQ(error.code(), GetParam().code) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(GetParam().named));
  EXPECT_THAT(error.what(), HasSubstr(GetParam().file));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadPlacementFile,
    ::testing::Values(
        PlacementFault{"ExpertWithoutASlot", "[[0, 1, 3, 3]]", Code::ReplicaCardinalityZero,
                       "layer 0, expert 2"},
        PlacementFault{"MoreExpertsThanSlots", "[[0, 1, 1048575, 3]]", Code::ReplicaCardinalityZero,
                       "found 4 slots"},
        PlacementFault{"NegativeId", "[[0, 1, -1, 2]]", Code::InvalidValue, "-1"},
        PlacementFault{"SlotsThatDontDivide", "[[0, 1, 2]]", Code::SlotsNotEqual, "2 ranks"},
        PlacementFault{"LayersOfOtherLengths", "[[0, 1], [0, 1, 1, 0]]", Code::ShapeMismatch,
                       "[1]"},
        PlacementFault{"NoPlacement", R"({"a": 1})", Code::UnknownFormat, "layer_list"},
        PlacementFault{"WrongCopyNumbers", R"({"phy2log": [[0, 0]], "phyrank": [[0, 0]],
                       "log2phy": [[[0, 1]]], "logcnt": [[2]]})",
                       Code::PlacementMapMismatch, "slot 1"},
        PlacementFault{"WrongInverse", R"({"phy2log": [[0, 1]], "log2phy": [[[1], [0]]]})",
                       Code::PlacementMapMismatch, "log2phy[0][0]"},
        PlacementFault{"WrongCount", R"({"phy2log": [[0, 1]], "logcnt": [[1, 2]]})",
                       Code::PlacementMapMismatch, "logcnt[0][1]"},
        PlacementFault{"AscendDeviceCount", R"({"moe_layer_count": 1, "layer_list": [
                       {"layer_id": 0, "device_count": 2, "device_list": [
                       {"device_id": 0, "device_expert": [0]}]}]})",
                       Code::InvalidValue, "device_count"},
        PlacementFault{"AscendUnequalDevices", R"({"moe_layer_count": 1, "layer_list": [
                       {"layer_id": 0, "device_count": 2, "device_list": [
                       {"device_id": 0, "device_expert": [0]},
                       {"device_id": 1, "device_expert": [0, 1]}]}]})",
                       Code::SlotsNotEqual, "device_list[1]"},
        PlacementFault{"AscendModelLayerId", R"({"moe_layer_count": 1, "layer_list": [
                       {"layer_id": 3, "device_count": 0, "device_list": []}]})",
                       Code::InvalidValue, "layer_id"},
        PlacementFault{"TensorrtLlmSlotCount",
                       "num_slots: 4\ninitial_global_assignments: {3: [0, 1]}", Code::ShapeMismatch,
                       "assignments.3", "p.yaml"},
        PlacementFault{"TensorrtLlmLayerName",
                       "num_slots: 2\ninitial_global_assignments: {x: [0, 1]}", Code::InvalidValue,
                       "model layer", "p.yaml"},
        PlacementFault{"TensorrtLlmLayerBeyondAnyModel",
                       "num_slots: 2\ninitial_global_assignments: {1048576: [0, 1]}",
                       Code::InvalidValue, "model layer", "p.yaml"},
        PlacementFault{"TensorrtLlmLayerTwice",
                       "num_slots: 2\ninitial_global_assignments: {3: [0, 1], 3: [0, 1]}",
                       Code::DuplicateKey, "3", "p.yaml"},
        PlacementFault{"YamlAnchor", "num_slots: &a 2", Code::DocumentMalformed, "anchor",
                       "p.yaml"},
        PlacementFault{"YamlAlias", "a: [*b]", Code::DocumentMalformed, "alias", "p.yaml"},
        PlacementFault{"YamlTag", "a: !!python/object:os.system x", Code::DocumentMalformed, "tag",
                       "p.yaml"},
        PlacementFault{"YamlTwoDocuments", "--- 1\n--- 2\n", Code::DocumentMalformed,
                       "second document", "p.yaml"},
        PlacementFault{"NotYaml", "a: [1, 2", Code::DocumentMalformed, "line", "p.yaml"},
        PlacementFault{"ManifestWithoutAnExpert",
                       R"({"placement_version": "p", "experts_by_rank": [[0, 2], [2]]})",
                       Code::ReplicaCardinalityZero, "1"}),
    [](const auto& fault) { return std::string(fault.param.name); });

TEST(PlacementFile, FormatsWithoutRanksAskForThem) {
  const TemporaryFolder folder;
  const std::string path = folder.write("p.json", "[[0, 1]]");
  const Error error = fault([&] { read_placement_table(path); });
  EXPECT_EQ(error.code(), Code::MissingField);
  EXPECT_THAT(error.what(), HasSubstr("--ranks"));
}

TEST(YamlDocument, ScalarsMeanWhatYamlSays) {
  const JsonDocument document =
      parse_yaml("a: 1\nb: '1'\nc: [true, ~, 1.5, x, \"\", 007]\n? d\n: {}\n", "y");
  const JsonValue root = document.root();
  EXPECT_EQ(root.at("a").as_integer(), 1);
  EXPECT_EQ(root.at("b").as_string(), "1");
  std::vector<JsonKind> kinds;
  for (JsonValue value : root.at("c").elements()) kinds.push_back(value.kind());
  EXPECT_THAT(kinds, ElementsAre(JsonKind::boolean, JsonKind::null, JsonKind::number,
                                 JsonKind::string, JsonKind::string, JsonKind::string));
  EXPECT_TRUE(root.at("d").is(JsonKind::object));
}

PROPERTY(PlacementFile, AnyPlacementSurvivesEveryFormat) {
  const std::int32_t experts = property::draw(1, 9), ranks = property::draw(1, 5);
  const std::int32_t each = (experts + ranks - 1) / ranks + property::draw(0, 3),
                     slots = each * ranks;
  PlacementTable table;
  table.experts = experts;
  for (std::int32_t layer = 0; layer < property::draw(1, 4); ++layer) {
    table.layers.emplace_back(layer);
    std::vector<std::int32_t> row;
    row.reserve(static_cast<std::size_t>(slots));
    for (std::int32_t q = 0; q < slots; ++q) {
      row.push_back(q < experts ? q : property::draw(0, experts));
    }
    for (std::int32_t q = slots - 1; q > 0; --q) {
      std::swap(row[static_cast<std::size_t>(q)],
                row[static_cast<std::size_t>(property::draw(0, q + 1))]);
    }
    auto& lists = table.slots.emplace_back();
    for (auto from = row.begin(); from != row.end(); from += each) {
      lists.emplace_back(from, from + each);
    }
  }
  const TemporaryFolder folder;
  for (FileFormat format : placement_formats) {
    const std::string path = folder.file(file_of(format));
    write_placement_table(path, format, table);
    const PlacementTable back = read_placement_table(path, over(ranks));
    HOLDS(back.slots == table.slots);
    HOLDS(back.layers == table.layers);
    HOLDS(placement_text(format, back) == placement_text(format, table));
  }
}

}  // namespace
}  // namespace waybill
