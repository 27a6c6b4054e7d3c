// Loads of every format, as recorded by the system or by numpy, and what is refused.
#include "waybill/load_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "io/npz.h"
#include "io/text_file.h"
#include "support/fault.h"
#include "support/temporary_folder.h"

namespace waybill {
namespace {

using ::testing::ElementsAre;
using testing::fault;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string recorded_load(const std::string& name) {
  return std::string(WAYBILL_TEST_DATA) + "/load_files/" + name;
}

std::vector<double> all_loads(const LoadWindow& window) {
  std::vector<double> loads;
  for (std::size_t i = 0; i < window.load.layers().size(); ++i) {
    const auto rows = window.load.by_source(i);
    loads.insert(loads.end(), rows.begin(), rows.end());
  }
  return loads;
}

std::vector<std::int32_t> layer_ids(const LoadSeries& series) {
  std::vector<std::int32_t> ids;
  for (LayerId layer : series.windows[0].load.layers()) ids.push_back(layer.value);
  return ids;
}

TEST(LoadFile, MegatronDumpsOfAllRanksAreSummed) {
  const LoadSeries series = read_loads(recorded_load("megatron"));
  EXPECT_EQ(series.format, FileFormat::megatron);
  EXPECT_THAT(layer_ids(series), ElementsAre(3, 5));
  ASSERT_EQ(series.windows.size(), 3U);
  EXPECT_THAT(all_loads(series.windows[0]), ElementsAre(82, 43, 83, 66, 80, 31, 41, 90));
  EXPECT_THAT(all_loads(series.windows[2]), ElementsAre(27, 64, 54, 82, 82, 45, 22, 15));
  EXPECT_EQ(series.windows[0].load.provenance().ranks, 2);
  EXPECT_THAT(series.warnings, ElementsAre(HasSubstr("slot i is read as expert i")));

  FileHints hints;
  hints.slot_experts = {{0, 1, 0, 1}};
  const LoadSeries folded = read_loads(recorded_load("megatron"), hints);
  EXPECT_THAT(all_loads(folded.windows[0]), ElementsAre(165, 109, 121, 121));
}

TEST(LoadFile, MegatronDumpOfOneRankOfTwoNamesTheMissingOne) {
  const Error error =
      fault([] { read_loads(recorded_load("megatron/mcore_ep_loads_rank1_0001.npz")); });
  EXPECT_EQ(error.code(), Code::MissingField);
  EXPECT_EQ(error.coordinate("rank"), "0");
}

TEST(LoadFile, TensorrtLlmFolderIsSummedOverRanksAndRawFilesAreIgnored) {
  const LoadSeries series = read_loads(recorded_load("tensorrt_llm"));
  EXPECT_THAT(layer_ids(series), ElementsAre(1, 3));
  ASSERT_EQ(series.windows.size(), 2U);
  EXPECT_THAT(all_loads(series.windows[0]), ElementsAre(26, 28, 30, 32, 30, 32, 34, 36));
  EXPECT_EQ(series.windows[1].load.provenance().first_step, 8);
  EXPECT_EQ(series.topk, 2);
}

TEST(LoadFile, SglangStatisticsCountDenseLayersAndIdleWindows) {
  const LoadSeries series = read_loads(recorded_load("sglang_statistics.json"));
  EXPECT_THAT(layer_ids(series), ElementsAre(1, 2));
  EXPECT_THAT(series.dense_layers, ElementsAre(LayerId(0)));
  EXPECT_THAT(series.warnings, ElementsAre(HasSubstr("taken for dense: 0")));
  ASSERT_EQ(series.windows.size(), 3U);
  EXPECT_FALSE(series.windows[1].idle);
  EXPECT_TRUE(series.windows[2].idle);

  FileHints hints;
  hints.dense_layers = {LayerId(1)};
  const Error error = fault([&] { read_loads(recorded_load("sglang_statistics.json"), hints); });
  EXPECT_EQ(error.code(), Code::InvalidValue);
  EXPECT_EQ(error.coordinate("layer"), "1");
}

TEST(LoadFile, SglangDetailDumpsAreSummedOverRanksAndFoldedToExperts) {
  const LoadSeries series = read_loads(recorded_load("sglang_detail"));
  ASSERT_EQ(series.windows.size(), 2U);
  // slots 0 1 2 0: 4+3 + 5+3, 1+1, 2+2; slots 2 1 0 2: 6+6, 5+5, 4+7 + 4+8
  EXPECT_THAT(all_loads(series.windows[0]), ElementsAre(15, 2, 4, 12, 10, 23));
  EXPECT_EQ(series.windows[1].load.provenance().first_step, 5);
}

TEST(LoadFile, ShortFormsAreRead) {
  const TemporaryFolder folder;
  const LoadSeries plain = read_loads(folder.write("a.json", "[[1, 2, 3], [4, 5, 6]]"));
  EXPECT_THAT(all_loads(plain.windows[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  const LoadSeries named = read_loads(
      folder.write("b.json", R"({"layers": [0, 10], "load": [[1, 2], [3, 4]], "unit": "rows"})"));
  EXPECT_THAT(layer_ids(named), ElementsAre(0, 10));
  const LoadSeries by_source =
      read_loads(folder.write("c.json", R"({"load": [[[1, 2], [3, 4], [5, 6]]]})"));
  EXPECT_EQ(by_source.windows[0].load.sources(), 3);

  const std::string sets = folder.write(
      "d.json", R"({"sets": [{"set": "x", "load": [[1, 2]]}, {"set": "y", "load": [[3, 4]]}]})");
  EXPECT_THAT(fault([&] { read_loads(sets); }).expected_text(), HasSubstr("x, y"));
  FileHints hints;
  hints.set = "y";
  EXPECT_THAT(all_loads(read_loads(sets, hints).windows[0]), ElementsAre(3, 4));
}

TEST(LoadFile, DeclaredDenseLayersKeepTheIdsOfTheOthers) {
  const TemporaryFolder folder;
  FileHints hints;
  hints.dense_layers = {LayerId(0), LayerId(2)};
  const LoadSeries series = read_loads(folder.write("a.json", "[[1, 2], [3, 4], [5, 6]]"), hints);
  EXPECT_THAT(layer_ids(series), ElementsAre(1, 3, 4));
}

TEST(LoadFile, PaddingThatIsToldApartIsTakenOut) {
  const TemporaryFolder folder;
  const LoadSeries series = read_loads(folder.write(
      "a.json",
      R"({"schema": "waybill-loads-1", "windows": [{"load": [[8, 8]], "padding": [[3, 0]]}]})"));
  EXPECT_THAT(all_loads(series.windows[0]), ElementsAre(5, 8));
}

void expect_same(const LoadSeries& a, const LoadSeries& b) {
  ASSERT_EQ(a.windows.size(), b.windows.size());
  EXPECT_EQ(layer_ids(a), layer_ids(b));
  for (std::size_t w = 0; w < a.windows.size(); ++w) {
    EXPECT_EQ(all_loads(a.windows[w]), all_loads(b.windows[w]));
    EXPECT_EQ(a.windows[w].idle, b.windows[w].idle);
  }
}

TEST(LoadFile, OurSchemaRoundTripsTheOthers) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, FileFormat>> files{
      {"sglang_statistics.json", FileFormat::sglang},
      {"tensorrt_llm", FileFormat::tensorrt_llm},
      {"megatron", FileFormat::megatron}};
  for (const auto& [file, format] : files) {
    const LoadSeries original = read_loads(recorded_load(file));
    const std::string neutral = folder.file(file + ".waybill.json");
    const std::string back = folder.file(file + ".back" + (file == "megatron" ? ".npz" : ""));
    write_loads(neutral, FileFormat::waybill, original);
    const LoadSeries ours = read_loads(neutral);
    expect_same(original, ours);
    write_loads(back, format, ours);
    const LoadSeries again = read_loads(back);
    EXPECT_EQ(again.format, format);
    expect_same(original, again);
  }
}

struct LoadFault {
  const char* name;
  std::string text;
  Code code;
  std::string named;
};
void PrintTo(const LoadFault& fault, std::ostream* out) { *out << fault.name; }

class BadLoadFile : public ::testing::TestWithParam<LoadFault> {};

TEST_P(BadLoadFile, IsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write("loads.json", GetParam().text);
  const Error error = fault([&] { read_loads(path); });
  EXPECT_EQ(error.code(), GetParam().code) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(GetParam().named));
  EXPECT_THAT(error.what(), HasSubstr("loads.json"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadLoadFile,
    ::testing::Values(
        LoadFault{"BareNan", R"({"load": [[1, NaN, 2]]})", Code::InvalidValue, "layer 0, expert 1"},
        LoadFault{"QuotedNan", R"({"load": [[1, 2], [1, "NaN"]]})", Code::InvalidValue,
                  "layer 1, expert 1"},
        LoadFault{"Infinity", R"({"load": [[-Infinity, 2]]})", Code::InvalidValue, "-inf"},
        LoadFault{"Negative", "[[1, -4]]", Code::InvalidValue, "found -4"},
        LoadFault{"Ragged", "[[1, 2], [3]]", Code::ShapeMismatch, "[1]"},
        LoadFault{"RaggedDepth", "[[1, 2], [[3], [4]]]", Code::DocumentMalformed, "[1][0]"},
        LoadFault{"NumberAmongRows", "[[1, 2], 3]", Code::DocumentMalformed, "[1]"},
        LoadFault{"Empty", R"({"load": []})", Code::ShapeMismatch, "0 entries"},
        LoadFault{"NoLoad", R"({"experts": 4})", Code::UnknownFormat, "logical_count"},
        LoadFault{"OtherExpertCount", R"({"experts": 4, "load": [[1, 2]]})", Code::ShapeMismatch,
                  "experts"},
        LoadFault{"OtherLayerCount", R"({"layers": 2, "load": [[1, 2]]})", Code::ShapeMismatch,
                  "layers"},
        LoadFault{"LayerTwice", R"({"layers": [1, 1], "load": [[1, 2], [1, 2]]})",
                  Code::DuplicateKey, "layers"},
        LoadFault{"UnknownUnit", R"({"schema": "s", "unit": "parsecs", "load": [[1]]})",
                  Code::InvalidValue, "parsecs"},
        LoadFault{"PaddedRows", R"({"padded": true, "load": [[1]]})", Code::LoadProvenanceMismatch,
                  "padding"},
        LoadFault{"MorePaddingThanRows", R"({"windows": [{"load": [[1]], "padding": [[2]]}]})",
                  Code::InvalidValue, "at most the 1 rows"},
        LoadFault{"WindowsOfOtherShape", R"({"windows": [{"load": [[1]]}, {"load": [[1, 2]]}]})",
                  Code::ShapeMismatch, "windows[1]"},
        LoadFault{"NotJson", "{", Code::DocumentMalformed, "line 1"},
        LoadFault{"TorchFile", "PK\x03\x04 and more", Code::UnknownFormat, "waybill.sglang_pt"},
        LoadFault{"MoreExpertsThanSlots",
                  R"({"records": [{"global_physical_count": [[1, 2]]}],)"
                  R"( "last_physical_to_logical_map": [[0, 1048575]]})",
                  Code::ReplicaCardinalityZero, "found 2 slots"},
        LoadFault{"SlotOutsideTheMap",
                  R"({"records": [{"global_physical_count": [[1, 2, 3]]}],)"
                  R"( "last_physical_to_logical_map": [[0, 1]]})",
                  Code::ShapeMismatch, "each of 3 slots"}),
    [](const auto& fault) { return std::string(fault.param.name); });

TEST(LoadFile, GzipIsUnpackedAndATruncatedOneIsNamed) {
  const std::string path =
      std::string(WAYBILL_TEST_DATA) + "/expert_loads/deepseek_v3_58x256_zipf1.0.json.gz";
  EXPECT_EQ(read_loads(path).windows[0].load.experts(), 256);
  const TemporaryFolder folder;
  const std::string whole = read_text_file(path, 1 << 20);
  const std::string half = folder.write("half.json.gz", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(fault([&] { read_loads(half); }).code(), Code::FileTruncated);
}

TEST(LoadFile, DamagedArchivesAreTypedErrors) {
  const TemporaryFolder folder;
  const std::string whole =
      read_text_file(recorded_load("megatron/mcore_ep_loads_rank1_0001.npz"), 1 << 20);
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    const std::string cut = folder.write("cut.npz", whole.substr(0, size));
    fault([&] { NpzFile::open(cut); });
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    const std::string path = folder.write("damaged.npz", damaged);
    try {
      NpzFile::open(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.coordinate("file"), path);
    }
  }
}

TEST(LoadFile, ExportOfFractionsToCountsIsRefused) {
  const TemporaryFolder folder;
  LoadSeries series = read_loads(folder.write("a.json", "[[1.5, 2]]"));
  series.topk = 1;
  const Error error =
      fault([&] { write_loads(folder.file("out"), FileFormat::tensorrt_llm, series); });
  EXPECT_EQ(error.code(), Code::InvalidValue);
  EXPECT_THAT(error.what(), HasSubstr("1.5"));
  EXPECT_EQ(fault([&] { write_loads(folder.file("x"), FileFormat::vllm, series); }).code(),
            Code::OptionNotBuilt);
}

}  // namespace
}  // namespace waybill
