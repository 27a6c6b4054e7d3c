#include "io/json_document.h"

#include <gtest/gtest.h>

#include <string>

#include "support/fault.h"

namespace waybill {
namespace {

using testing::fault;

JsonDocument parse(std::string_view text, const JsonLimits& limits = {}) {
  return JsonDocument::parse(text, "doc.json", limits);
}

TEST(JsonDocument, ReadsEveryKindInTheOrderOfTheText) {
  const JsonDocument document =
      parse(R"({"n": null, "t": true, "i": -3, "d": 0.5, "s": "aé", "l": [1, 2], "o": {"z": 1}})");
  const JsonValue root = document.root();

  std::string keys;
  for (const JsonValue member : root.members()) keys += member.key();
  EXPECT_EQ(keys, "ntidslo");
  EXPECT_EQ(root.size(), 7U);
  EXPECT_TRUE(root.at("n").is(JsonKind::null));
  EXPECT_TRUE(root.at("t").as_bool());
  EXPECT_EQ(root.at("i").as_integer(), -3);
  EXPECT_EQ(root.at("i").as_number(), -3.0);
  EXPECT_EQ(root.at("d").as_number(), 0.5);
  EXPECT_EQ(root.at("s").as_string(), "aé");
  EXPECT_EQ(root.at("l").as_integers(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(root.at("o").at("z").path(), "o.z");
  EXPECT_FALSE(root.find("absent").has_value());
}

TEST(JsonDocument, NamesTheFieldByItsPath) {
  const JsonDocument document = parse(R"({"layers": [{}, {"slots": [{"expert": "three"}]}]})");
  JsonValue slot = document.root();
  for (const JsonValue layer : document.root().at("layers").elements()) {
    for (const JsonValue slots : layer.members()) {
      for (const JsonValue element : slots.elements()) slot = element;
    }
  }
  const Error error = fault([&] { slot.at("expert").as_integer(); });
  EXPECT_EQ(error.code(), Code::DocumentMalformed);
  EXPECT_EQ(error.coordinate("file"), "doc.json");
  EXPECT_EQ(error.coordinate("field"), "layers[1].slots[0].expert");
  EXPECT_EQ(error.expected_text(), "integer");
  EXPECT_EQ(error.found_text(), "\"three\"");

  const Error missing = fault([&] { slot.at("rank"); });
  EXPECT_EQ(missing.code(), Code::MissingField);
  EXPECT_EQ(missing.coordinate("field"), "layers[1].slots[0].rank");
}

struct BadText {
  const char* fault;
  std::string text;
  Code code;
  const char* coordinate;
  const char* value;
};

class JsonDocumentRefuses : public ::testing::TestWithParam<BadText> {};

TEST_P(JsonDocumentRefuses, WithCodeAndPlace) {
  const BadText& bad = GetParam();
  const Error error = fault([&] { parse(bad.text); });
  EXPECT_EQ(error.code(), bad.code) << error.what();
  EXPECT_EQ(error.coordinate("file"), "doc.json");
  EXPECT_EQ(error.coordinate(bad.coordinate), bad.value) << error.what();
}

INSTANTIATE_TEST_SUITE_P(
    JsonDocument, JsonDocumentRefuses,
    ::testing::Values(
        BadText{"Empty", "", Code::DocumentMalformed, "line", "1"},
        BadText{"CutShort", "{\n\"a\": [1,\n", Code::DocumentMalformed, "line", "3"},
        BadText{"TrailingText", "{}\n{}", Code::DocumentMalformed, "line", "2"},
        BadText{"ZeroByte", std::string("{}\0 more", 8), Code::DocumentMalformed, "byte", "3"},
        BadText{"TrailingComma", "{\"a\": [1,]}", Code::DocumentMalformed, "byte", "10"},
        BadText{"Comment", "{} // no", Code::DocumentMalformed, "byte", "4"},
        BadText{"NotANumber", "[NaN]", Code::DocumentMalformed, "byte", "2"},
        BadText{"NumberBeyondDouble", "[1e999]", Code::DocumentMalformed, "line", "1"},
        BadText{"NotUtf8", "[\"\xff\"]", Code::DocumentMalformed, "byte", "3"},
        BadText{"KeyTwice", R"({"a": {"b": 1, "c": 2, "b": 1}})", Code::DuplicateKey, "field",
                "a.b"},
        BadText{"KeyTwiceEscaped", R"({"a": 1, "\u0061": 2})", Code::DuplicateKey, "field", "a"},
        BadText{"TooDeep", std::string(1000, '['), Code::DocumentMalformed, "file", "doc.json"}),
    [](const auto& bad) { return std::string(bad.param.fault); });

TEST(JsonDocument, KeepsItsLimits) {
  EXPECT_EQ(fault([] { parse("[1, 2, 3]", {.values = 3}); }).code(), Code::DocumentMalformed);
  EXPECT_NO_THROW(parse("[1, 2, 3]", {.values = 4}));
  EXPECT_EQ(fault([] { parse("[[[1]]]", {.depth = 2}); }).code(), Code::DocumentMalformed);
  EXPECT_NO_THROW(parse("[[[1]]]", {.depth = 3}));
  EXPECT_EQ(fault([] { parse("[1, 2, 3]", {.bytes = 8}); }).code(), Code::DocumentMalformed);
}

TEST(JsonDocument, RefusesIntegersOutOfRangeAndFractions) {
  const JsonDocument document = parse("[9, 1.5, 18446744073709551615, 1e30, -9223372036854775808]");
  std::vector<JsonValue> values;
  for (const JsonValue value : document.root().elements()) values.push_back(value);

  EXPECT_EQ(fault([&] { values[0].as_integer(0, 8); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([&] { values[1].as_integer(); }).code(), Code::DocumentMalformed);
  EXPECT_EQ(fault([&] { values[2].as_integer(); }).code(), Code::InvalidValue);
  EXPECT_EQ(fault([&] { values[3].as_integer(); }).coordinate("field"), "[3]");
  EXPECT_EQ(values[4].as_integer(), std::numeric_limits<std::int64_t>::min());
}

TEST(JsonDocument, ShortensLongTextInErrors) {
  const JsonDocument document =
      parse("{\"" + std::string(100'000, 'k') + "\": \"" + std::string(100'000, 'v') + "\"}");
  for (const JsonValue member : document.root().members()) {
    EXPECT_LT(std::string_view(fault([&] { member.as_integer(); }).what()).size(), 400U);
  }
}

TEST(JsonDocument, NamesAFileThatCannotBeRead) {
  for (const char* path : {"/nonexistent/config.json", "/"}) {
    const Error error = fault([&] { JsonDocument::read(path); });
    EXPECT_EQ(error.code(), Code::FileUnreadable);
    EXPECT_EQ(error.coordinate("file"), path);
  }
}

}  // namespace
}  // namespace waybill
