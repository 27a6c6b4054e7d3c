#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "io/safetensors_bytes.h"
#include "support/fault.h"
#include "support/temporary_folder.h"

namespace waybill {
namespace {

using testing::bytes_of;
using testing::fault;
using testing::length_field;
using testing::safetensors_bytes;

SafetensorsContents parse(const std::string& file) {
  return parse_safetensors(bytes_of(file), "x.safetensors");
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string file = safetensors_bytes(
      R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[6,14]},)"
      R"("__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}  )",
      14);
  const SafetensorsContents contents = parse(file);
  ASSERT_EQ(contents.tensors.size(), 2U);
  EXPECT_EQ(contents.tensors[0].name, "a");
  EXPECT_EQ(contents.tensors[0].dtype, DType::bf16);
  EXPECT_EQ(contents.tensors[1].name, "b");
  EXPECT_EQ(contents.tensors[1].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(contents.tensors[1].bytes.size(), 8U);
  EXPECT_EQ(contents.tensors[1].bytes.data(), bytes_of(file).data() + file.size() - 8);
  EXPECT_EQ(contents.metadata.at("format"), "pt");
}

TEST(Safetensors, AllowsScalarsTensorsWithoutElementsAndNoTensorAtAll) {
  const auto contents = parse(safetensors_bytes(
      R"({"none":{"dtype":"F64","shape":[0,4611686018427387904,8],"data_offsets":[0,0]},)"
      R"("one":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("end":{"dtype":"U8","shape":[3,0],"data_offsets":[8,8]}})",
      8));
  EXPECT_EQ(contents.tensors.size(), 3U);
  EXPECT_TRUE(parse(safetensors_bytes("{}", 0)).tensors.empty());
}

struct BadFile {
  const char* fault;
  std::string bytes;
  Code code;
  const char* coordinate = "file";
  const char* value = "x.safetensors";
};

// A file of one tensor "t" with those fields.
std::string one(const char* dtype, const char* shape, const char* offsets, std::size_t data) {
  return safetensors_bytes(std::string(R"({"t":{"dtype":)") + dtype + R"(,"shape":)" + shape +
                               R"(,"data_offsets":)" + offsets + "}}",
                           data);
}

// A file of two F32 tensors "a" and "b" with those offsets.
std::string two(const char* a, const char* a_shape, const char* b, const char* b_shape,
                std::size_t data) {
  return safetensors_bytes(std::string(R"({"a":{"dtype":"F32","shape":)") + a_shape +
                               R"(,"data_offsets":)" + a + R"(},"b":{"dtype":"F32","shape":)" +
                               b_shape + R"(,"data_offsets":)" + b + "}}",
                           data);
}

class SafetensorsRefuses : public ::testing::TestWithParam<BadFile> {};

TEST_P(SafetensorsRefuses, WithCodeAndPlace) {
  const BadFile& bad = GetParam();
  const Error error = fault([&] { parse(bad.bytes); });
  EXPECT_EQ(error.code(), bad.code) << error.what();
  EXPECT_EQ(error.coordinate("file"), "x.safetensors");
  EXPECT_EQ(error.coordinate(bad.coordinate), bad.value) << error.what();
}

constexpr auto name_of = [](const auto& bad) { return std::string(bad.param.fault); };

INSTANTIATE_TEST_SUITE_P(
    Length, SafetensorsRefuses,
    ::testing::Values(
        BadFile{"EmptyFile", "", Code::FileTruncated},
        BadFile{"SevenBytes", std::string(7, '\0'), Code::FileTruncated},
        BadFile{"HeaderLongerThanTheFile", length_field(3) + "{}", Code::FileTruncated},
        BadFile{"HeaderAtTheLimitButAbsent", length_field(100'000'000), Code::FileTruncated},
        BadFile{"HeaderAboveTheLimit", length_field(100'000'001) + "{}", Code::HeaderTooLarge},
        BadFile{"HeaderLengthOfAllOnes", std::string(8, '\xff') + "{}", Code::HeaderTooLarge}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Header, SafetensorsRefuses,
    ::testing::Values(
        BadFile{"EmptyHeader", safetensors_bytes("", 0), Code::HeaderMalformed},
        BadFile{"NoJson", safetensors_bytes("{tensor}", 0), Code::HeaderMalformed, "line", "1"},
        BadFile{"NotAnObject", safetensors_bytes("[]", 0), Code::HeaderMalformed},
        BadFile{"LeadingBlank", safetensors_bytes(" {}", 0), Code::HeaderMalformed},
        BadFile{"PaddedWithZeros", safetensors_bytes(std::string("{}\0\0", 4), 0),
                Code::HeaderMalformed},
        BadFile{"NotUtf8", safetensors_bytes("{\"\xc3\x28\": 1}", 0), Code::HeaderMalformed},
        BadFile{"NestedTooDeep", safetensors_bytes(R"({"a":[[[[]]]]})", 0), Code::HeaderMalformed},
        BadFile{"TensorIsNoObject", safetensors_bytes(R"({"t": 3})", 0), Code::HeaderMalformed,
                "field", "t"},
        BadFile{"NoDtype", safetensors_bytes(R"({"t":{"shape":[],"data_offsets":[0,0]}})", 0),
                Code::HeaderMalformed, "field", "t.dtype"},
        BadFile{"NoShape", safetensors_bytes(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4),
                Code::HeaderMalformed, "field", "t.shape"},
        BadFile{"NoOffsets", safetensors_bytes(R"({"t":{"dtype":"F32","shape":[1]}})", 4),
                Code::HeaderMalformed, "field", "t.data_offsets"},
        BadFile{"OneOffset", one(R"("F32")", "[1]", "[4]", 4), Code::HeaderMalformed, "field",
                "t.data_offsets"},
        BadFile{"FractionalShape", one(R"("F32")", "[1.5]", "[0,6]", 6), Code::HeaderMalformed,
                "field", "t.shape[0]"},
        BadFile{"DtypeIsNoText", one("32", "[1]", "[0,4]", 4), Code::HeaderMalformed, "field",
                "t.dtype"},
        BadFile{
            "UnknownMember",
            safetensors_bytes(R"({"t":{"dtype":"U8","shape":[],"data_offsets":[0,1],"scale":2}})",
                              1),
            Code::HeaderMalformed, "field", "t"},
        BadFile{"MetadataIsNoText", safetensors_bytes(R"({"__metadata__":{"n":1}})", 0),
                Code::HeaderMalformed, "field", "__metadata__.n"},
        BadFile{"TensorTwice",
                safetensors_bytes(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                  R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                  2),
                Code::DuplicateKey, "field", "t"},
        BadFile{"ShapeTwice",
                safetensors_bytes(
                    R"({"t":{"shape":[1],"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
                Code::DuplicateKey, "field", "t.shape"},
        BadFile{"MetadataTwice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", 0),
                Code::DuplicateKey, "field", "__metadata__"},
        BadFile{"UnknownDtype", one(R"("F12")", "[1]", "[0,4]", 4), Code::UnknownDtype, "tensor",
                "t"},
        BadFile{"LowerCaseDtype", one(R"("bf16")", "[1]", "[0,2]", 2), Code::UnknownDtype, "tensor",
                "t"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Offsets, SafetensorsRefuses,
    ::testing::Values(
        BadFile{"RangeSmallerThanShape", one(R"("F32")", "[4]", "[0,12]", 16),
                Code::TensorOutsideFile, "tensor", "t"},
        BadFile{"RangeLargerThanShape", one(R"("F32")", "[4]", "[0,32]", 16),
                Code::TensorOutsideFile, "tensor", "t"},
        BadFile{"BeginAfterEnd", one(R"("U8")", "[4]", "[4,0]", 4), Code::TensorOutsideFile,
                "tensor", "t"},
        BadFile{"BeyondTheFile", one(R"("U8")", "[4]", "[1000,1004]", 4), Code::TensorOutsideFile,
                "tensor", "t"},
        BadFile{"NegativeOffset", one(R"("U8")", "[4]", "[-4,0]", 4), Code::TensorOutsideFile,
                "field", "t.data_offsets[0]"},
        BadFile{"OffsetBeyondInt64", one(R"("U8")", "[4]", "[0,18446744073709551615]", 4),
                Code::TensorOutsideFile, "field", "t.data_offsets[1]"},
        BadFile{"NegativeExtent", one(R"("U8")", "[-1]", "[0,4]", 4), Code::TensorOutsideFile,
                "field", "t.shape[0]"},
        BadFile{"ShapeProductOverflows", one(R"("F64")", "[4294967296,4294967296,4]", "[0,0]", 0),
                Code::TensorOutsideFile, "tensor", "t"},
        BadFile{"ByteSizeOverflows", one(R"("F64")", "[2305843009213693952]", "[0,0]", 0),
                Code::TensorOutsideFile, "tensor", "t"},
        BadFile{"Overlap", two("[0,8]", "[2]", "[4,12]", "[2]", 12), Code::TensorOverlap, "tensor",
                "b"},
        BadFile{"SameBytesTwice", two("[0,8]", "[2]", "[0,8]", "[2]", 8), Code::TensorOverlap,
                "tensor", "b"},
        BadFile{"EmptyTensorInsideAnother", two("[0,8]", "[2]", "[4,4]", "[0]", 8),
                Code::TensorOverlap, "tensor", "b"},
        BadFile{"HoleBetween", two("[0,4]", "[1]", "[8,12]", "[1]", 12), Code::HeaderMalformed,
                "tensor", "b"},
        BadFile{"HoleBefore", one(R"("U8")", "[4]", "[4,8]", 8), Code::HeaderMalformed, "tensor",
                "t"},
        BadFile{"SecondLeavesTheFile", two("[0,4]", "[1]", "[8,12]", "[1]", 8),
                Code::TensorOutsideFile, "tensor", "b"},
        BadFile{"BytesAfterTheLast", one(R"("U8")", "[4]", "[0,4]", 5), Code::HeaderMalformed,
                "tensor", "t"},
        BadFile{"BytesButNoTensor", safetensors_bytes("{}", 1), Code::HeaderMalformed, "tensor",
                "(none)"},
        BadFile{"DataCutShort", two("[0,8]", "[2]", "[8,16]", "[2]", 15), Code::FileTruncated,
                "tensor", "b"},
        BadFile{"DataAbsent", one(R"("F32")", "[1000000]", "[0,4000000]", 0), Code::FileTruncated,
                "tensor", "t"}),
    name_of);

TEST(Safetensors, AHeaderThatIsNoObjectIsShown) {
  const auto found = [](const std::string& file) {
    const Error error = fault([&] { parse(file); });
    EXPECT_EQ(error.code(), Code::HeaderMalformed);
    return error.found_text();
  };
  EXPECT_EQ(found(length_field(4) + "[12]"), "[12]");
  EXPECT_EQ(found(length_field(0)), "an empty one");
}

TEST(Safetensors, EveryFaultOfAHeaderIsListed) {
  const std::string file = safetensors_bytes(
      R"({"a":{"dtype":"X1","shape":[1],"data_offsets":[0,4]},
          "b":{"dtype":"F32","shape":[2],"data_offsets":[4,8]},
          "c":{"dtype":"F32","shape":[1]}})",
      12);
  const Faults faults = Faults::collect(
      [&](Faults& found) { parse_safetensors(bytes_of(file), "x.safetensors", found); });
  std::vector<Code> codes;
  for (const Error& error : faults.all()) codes.push_back(error.code());
  EXPECT_EQ(codes,
            (std::vector{Code::UnknownDtype, Code::TensorOutsideFile, Code::HeaderMalformed}));
}

TEST(SafetensorsFile, NamesAFileThatCannotBeRead) {
  const testing::TemporaryFolder folder;
  for (const std::string& path : {folder.path(), folder.file("absent.safetensors")}) {
    const Error error = fault([&] { SafetensorsFile::open(path); });
    EXPECT_EQ(error.code(), Code::FileUnreadable);
    EXPECT_EQ(error.coordinate("file"), path);
  }
  const std::string empty = folder.write("empty.safetensors", "");
  EXPECT_EQ(fault([&] { SafetensorsFile::open(empty); }).code(), Code::FileTruncated);
}

TEST(SafetensorsFile, KeepsItsViewsWhenMoved) {
  const std::string path =
      std::string(WAYBILL_TEST_DATA) + "/checkpoints/mixtral/model.safetensors";
  SafetensorsFile file = SafetensorsFile::open(path);
  const SafetensorsTensor* before = file.find("model.norm.weight");
  ASSERT_NE(before, nullptr);
  const std::byte first = before->bytes.front();

  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(moved.find("model.norm.weight"), before);
  EXPECT_EQ(before->bytes.front(), first);
  moved.drop_pages(*before);
  EXPECT_EQ(before->bytes.front(), first);
  EXPECT_EQ(moved.find("absent"), nullptr);
}

}  // namespace
}  // namespace waybill
