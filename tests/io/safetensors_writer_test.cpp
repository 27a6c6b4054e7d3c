#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "io/safetensors.h"
#include "support/fault.h"
#include "support/temporary_folder.h"

namespace waybill {
namespace {

using testing::fault;
using testing::TemporaryFolder;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string write(const std::string& path, std::vector<SafetensorsWriter::Tensor> tensors) {
  SafetensorsWriter writer(path, std::move(tensors), {{"format", "pt"}});
  for (const auto& tensor : writer.tensors()) {
    std::size_t bytes = size_of(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
    writer.write(std::vector<std::byte>(bytes, std::byte{7}));
  }
  writer.finish();
  return content(path);
}

TEST(SafetensorsWriter, GivesTheSameBytesForTheSameTensorsInAnyOrder) {
  const TemporaryFolder folder;
  const SafetensorsWriter::Tensor a{"a", DType::u8, {3}};
  const SafetensorsWriter::Tensor b{"b", DType::bf16, {2, 2}};
  const SafetensorsWriter::Tensor c{"c", DType::f32, {}};
  EXPECT_EQ(write(folder.file("x"), {a, b, c}), write(folder.file("y"), {c, b, a}));
}

TEST(SafetensorsWriter, AlignsEveryTensorToItsElement) {
  const TemporaryFolder folder;
  write(folder.file("x"), {{"a", DType::u8, {3}},
                           {"b", DType::bf16, {1}},
                           {"c", DType::f64, {1}},
                           {"d", DType::f32, {1}}});
  const SafetensorsFile file = SafetensorsFile::open(folder.file("x"));
  for (const SafetensorsTensor& tensor : file.tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % size_of(tensor.dtype), 0U)
        << tensor.name;
  }
}

TEST(SafetensorsWriter, RefusesANameTwiceAndTheReservedOne) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "__metadata__"}) {
    const Error error = fault([&] {
      SafetensorsWriter(folder.file("x"), {{"a", DType::u8, {1}}, {name, DType::u8, {1}}});
    });
    EXPECT_EQ(error.code(), Code::DuplicateKey);
    EXPECT_EQ(error.coordinate("tensor"), name);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItIsNotFinished) {
  const TemporaryFolder folder;
  { SafetensorsWriter writer(folder.file("x"), {{"a", DType::u8, {1}}}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsWriter, NamesAFileThatCannotBeWritten) {
  const Error error = fault([] {
    SafetensorsWriter("/nonexistent/x.safetensors", {{"a", DType::u8, {1}}});
  });
  EXPECT_EQ(error.code(), Code::FileUnwritable);
  EXPECT_EQ(error.coordinate("file"), "/nonexistent/x.safetensors");
}

}  // namespace
}  // namespace waybill
