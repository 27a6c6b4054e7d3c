#include "waybill/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

// Compiled programs hold the numbers: those of each category as they were when it was made.
TEST(Error, CodesKeepTheirNumbers) {
  const std::vector<std::pair<Code, int>> pinned{{Code::SemanticDigestMismatch, 1},
                                                 {Code::LogicalCountMismatch, 19},
                                                 {Code::GenerationMismatch, 40},
                                                 {Code::StageBytesMismatch, 73},
                                                 {Code::RunnerDropsRoute, 111},
                                                 {Code::PhaseProvenanceLost, 120},
                                                 {Code::HandleTypeMismatch, 132},
                                                 {Code::DomainNotPartition, 137},
                                                 {Code::LoadProvenanceMismatch, 143},
                                                 {Code::ScaleOrderMismatch, 150},
                                                 {Code::UpstreamDigestDrift, 157},
                                                 {Code::FileUnreadable, 163},
                                                 {Code::PeerTimeout, 188},
                                                 {Code::UsageError, 191},
                                                 {Code::StructMismatch, 197},
                                                 {Code::MemoryExhausted, 198}};
  for (const auto& [code, number] : pinned) EXPECT_EQ(static_cast<int>(code), number) << name(code);
}

TEST(Error, EveryNumberNamesOneCodeOrNone) {
  std::set<int> numbers;
  for (const Code code : all_codes()) {
    const int number = static_cast<int>(code);
    EXPECT_TRUE(numbers.insert(number).second) << name(code);
    Code found{};
    ASSERT_TRUE(find_code(std::int64_t{number}, found));
    EXPECT_EQ(found, code);
  }
  // A gap would be the number of a code that was taken out.
  EXPECT_EQ(*numbers.rbegin(), std::ssize(numbers));
  Code ignored{};
  for (const std::int64_t none : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    EXPECT_FALSE(find_code(none, ignored)) << none;
  }
}

}  // namespace
}  // namespace waybill
