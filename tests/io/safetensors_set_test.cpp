#include "io/safetensors_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "io/safetensors_bytes.h"
#include "support/fault.h"
#include "support/temporary_folder.h"

namespace waybill {
namespace {

using testing::fault;
using testing::TemporaryFolder;

constexpr auto index_name = "model.safetensors.index.json";

// A shard with U8 tensors of one byte each.
std::string shard(std::initializer_list<const char*> names) {
  std::string header = "{";
  std::size_t at = 0;
  for (const char* name : names) {
    if (at != 0) header += ',';
    header += '"' + std::string(name) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(at) + ',' + std::to_string(at + 1) + "]}";
    ++at;
  }
  return testing::safetensors_bytes(header + "}", at);
}

TEST(SafetensorsSet, FindsTensorsInTheirShards) {
  const TemporaryFolder folder;
  folder.write(
      index_name,
      R"({"metadata":{"total_size":3},"weight_map":{"m.b":"1.st","m.a":"2.st","n":"1.st"}})");
  folder.write("1.st", shard({"m.b", "n"}));
  folder.write("2.st", shard({"m.a"}));
  const SafetensorsSet set = SafetensorsSet::open(folder.path());
  EXPECT_EQ(set.size(), 3U);
  ASSERT_NE(set.find("m.a"), nullptr);
  EXPECT_EQ(set.find("m.a")->file->path(), folder.file("2.st"));
  EXPECT_EQ(set.find("m"), nullptr);
  std::string names;
  for (const auto& member : set.under("m.")) names += member.name();
  EXPECT_EQ(names, "m.am.b");
  EXPECT_TRUE(set.under("x").empty());
}

TEST(SafetensorsSet, PrefersTheSingleFile) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", shard({"only"}));
  folder.write(index_name, R"({"weight_map":{"other":"1.st"}})");
  const SafetensorsSet set = SafetensorsSet::open(folder.path());
  EXPECT_NE(set.find("only"), nullptr);
}

TEST(SafetensorsSet, NamesTheFileThatIsMissing) {
  const TemporaryFolder folder;
  const Error none = fault([&] { SafetensorsSet::open(folder.path()); });
  EXPECT_EQ(none.code(), Code::FileUnreadable);
  EXPECT_EQ(none.coordinate("file"), folder.file("model.safetensors"));

  folder.write(index_name, R"({"weight_map":{"a":"1.st"}})");
  const Error absent = fault([&] { SafetensorsSet::open(folder.path()); });
  EXPECT_EQ(absent.code(), Code::FileUnreadable);
  EXPECT_EQ(absent.coordinate("file"), folder.file("1.st"));
}

struct BadIndex {
  const char* fault;
  const char* index;
  Code code;
  const char* coordinate;
  const char* value;
};

class SafetensorsSetRefuses : public ::testing::TestWithParam<BadIndex> {};

// Beside 1.st with "a" and "b".
TEST_P(SafetensorsSetRefuses, WithCodeAndPlace) {
  const TemporaryFolder folder;
  folder.write(index_name, GetParam().index);
  folder.write("1.st", shard({"a", "b"}));
  folder.write("2.st", shard({"c"}));
  const Error error = fault([&] { SafetensorsSet::open(folder.path()); });
  EXPECT_EQ(error.code(), GetParam().code) << error.what();
  EXPECT_EQ(error.coordinate("file"), folder.file(index_name));
  EXPECT_EQ(error.coordinate(GetParam().coordinate), GetParam().value) << error.what();
}

INSTANTIATE_TEST_SUITE_P(
    SafetensorsSet, SafetensorsSetRefuses,
    ::testing::Values(
        BadIndex{"NoJson", "weights", Code::DocumentMalformed, "line", "1"},
        BadIndex{"NoMap", "{}", Code::MissingField, "field", "weight_map"},
        BadIndex{"TensorTwice", R"({"weight_map":{"a":"1.st","b":"1.st","a":"2.st"}})",
                 Code::DuplicateKey, "field", "weight_map.a"},
        BadIndex{"ShardIsNoText", R"({"weight_map":{"a":1}})", Code::DocumentMalformed, "field",
                 "weight_map.a"},
        BadIndex{"TensorNotInItsShard", R"({"weight_map":{"a":"1.st","b":"1.st","absent":"1.st"}})",
                 Code::ShardMismatch, "tensor", "absent"},
        BadIndex{"TensorNotInTheIndex", R"({"weight_map":{"a":"1.st"}})", Code::ShardMismatch,
                 "tensor", "b"},
        BadIndex{"TensorInAnotherShard", R"({"weight_map":{"a":"1.st","b":"2.st","c":"2.st"}})",
                 Code::ShardMismatch, "tensor", "b"},
        BadIndex{"ShardAbove", R"({"weight_map":{"a":"../1.st"}})", Code::InvalidValue, "field",
                 "weight_map.a"},
        BadIndex{"ShardElsewhere", R"({"weight_map":{"a":"/etc/passwd"}})", Code::InvalidValue,
                 "field", "weight_map.a"},
        BadIndex{"ShardIsTheFolder", R"({"weight_map":{"a":".."}})", Code::InvalidValue, "field",
                 "weight_map.a"},
        BadIndex{"ShardWithoutName", R"({"weight_map":{"a":""}})", Code::InvalidValue, "field",
                 "weight_map.a"},
        BadIndex{"ShardNameWithZero", R"({"weight_map":{"a":"1.st\u0000"}})", Code::InvalidValue,
                 "field", "weight_map.a"}),
    [](const auto& bad) { return std::string(bad.param.fault); });

}  // namespace
}  // namespace waybill
