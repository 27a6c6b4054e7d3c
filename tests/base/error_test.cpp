#include "waybill/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "waybill/ids.h"

namespace waybill {
namespace {

TEST(Error, NamesCodeCoordinatesExpectedAndFound) {
  const Error error = Error(Code::ShapeMismatch)
                          .at("file", "model.safetensors")
                          .at("layer", LayerId{3})
                          .expected("[96, 64]")
                          .found("[64, 96]");
  EXPECT_STREQ(error.what(),
               "ShapeMismatch: file model.safetensors, layer 3: expected [96, 64], found [64, 96]");
  EXPECT_EQ(error.coordinate("layer"), "3");
  EXPECT_EQ(error.coordinate("absent"), "");
}

TEST(Error, FieldOrderDoesNotChangeTheMessage) {
  const Error a = Error(Code::InvalidValue).found(2).expected(1).at("field", "k").note("mend it");
  const Error b = Error(Code::InvalidValue).at("field", "k").note("mend it").expected(1).found(2);
  EXPECT_STREQ(a.what(), b.what());
}

TEST(Error, NamesFromFilesDoNotSteerATerminal) {
  const Error error = Error(Code::InvalidValue).at("field", "\x1b[2J").found("two\nlines");
  EXPECT_STREQ(error.what(), "InvalidValue: field ?[2J: found two?lines");
  EXPECT_EQ(error.coordinate("field"), "\x1b[2J");
}

TEST(Error, EveryCodeHasAUniqueNameACategoryAndAContract) {
  std::set<std::string_view> names;
  for (Code code : all_codes()) {
    EXPECT_TRUE(names.insert(name(code)).second) << name(code);
    EXPECT_FALSE(category(code).empty()) << name(code);
    EXPECT_GT(contract(code).size(), 20U) << name(code);
    Code found{};
    ASSERT_TRUE(find_code(name(code), found));
    EXPECT_EQ(found, code);
  }
  Code ignored{};
  EXPECT_FALSE(find_code("NoSuchCode", ignored));
}

}  // namespace
}  // namespace waybill
