// The program as a person or a script runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/process.h"
#include "support/temporary_folder.h"

namespace waybill::conformance {
namespace {

using testing::execute;
using testing::Finished;
using testing::TemporaryFolder;

const std::string program = WAYBILL_CONFORMANCE;
const std::string fixtures = std::string(WAYBILL_TEST_DATA) + "/conformance";

TEST(ConformanceProgram, ACleanSetExitsWithZero) {
  const Finished run = execute(program, {fixtures, "--json"});
  EXPECT_EQ(run.exit, 0) << run.out << run.err;
  EXPECT_TRUE(run.json().at("violations").empty());
  EXPECT_EQ(execute(program, {fixtures}).exit, 0);
}

TEST(ConformanceProgram, AViolationExitsWithOneAndSaysWhere) {
  const TemporaryFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures)) {
    std::filesystem::copy(entry.path(), folder.path());
  }
  std::ifstream file(fixtures + "/dispatch.json");
  nlohmann::json dispatch = nlohmann::json::parse(file);
  dispatch["count_matrix"][0][1] = 1;
  folder.write("dispatch.json", dispatch.dump());
  const Finished run = execute(program, {folder.path(), "--json"});
  EXPECT_EQ(run.exit, 1);
  const nlohmann::json violation = run.json().at("violations").at(0);
  EXPECT_EQ(violation.at("code"), "CountMatrixMismatch");
  EXPECT_EQ(violation.at("where"), "dispatch.json#/count_matrix/0/1");
  EXPECT_EQ(violation.at("expected"), "2");
  EXPECT_EQ(violation.at("found"), "1");
}

TEST(ConformanceProgram, WrongUsageAndUnreadableFilesExitWithTwo) {
  const TemporaryFolder folder;
  EXPECT_EQ(execute(program, {}).exit, 2);
  EXPECT_EQ(execute(program, {fixtures, "--jason"}).exit, 2);
  EXPECT_EQ(execute(program, {fixtures, fixtures}).exit, 2);
  EXPECT_EQ(execute(program, {folder.path()}).exit, 2) << "no file";
  EXPECT_EQ(execute(program, {folder.file("none")}).exit, 2);
  for (const std::string text : {"", "{", "{\"a\": 1, \"a\": 2}"}) {
    folder.write("routes.json", text);
    const Finished run = execute(program, {folder.path(), "--json"});
    EXPECT_EQ(run.exit, 2) << text;
    EXPECT_NE(run.err.find("routes.json"), std::string::npos) << run.err;
  }
  folder.write("routes.json", std::string(100'000, '['));
  EXPECT_EQ(execute(program, {folder.path()}).exit, 2) << "nesting";
}

TEST(ConformanceProgram, FilesOfNoKnownKindAreListed) {
  const TemporaryFolder folder;
  folder.write("notes.json", "[]");
  const Finished run = execute(program, {folder.path(), "--json"});
  EXPECT_EQ(run.exit, 0);
  EXPECT_EQ(run.json().at("unchecked").size(), 1U);
  EXPECT_EQ(execute(program, {"--help"}).exit, 0);
}

}  // namespace
}  // namespace waybill::conformance
