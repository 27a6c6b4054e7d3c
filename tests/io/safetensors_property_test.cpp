// Safetensors files at random: what is written is read back, and no corruption does worse than an
// Error.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_bytes.h"
#include "io/safetensors_writer.h"
#include "support/temporary_folder.h"
#include "waybill/error.h"

namespace waybill {
namespace {

using Bytes = std::vector<std::byte>;

struct Drawn {
  std::vector<SafetensorsWriter::Tensor> tensors;
  std::map<std::string, Bytes> bytes;
};

Bytes draw_bytes(std::size_t count) {
  const auto values =
      *rc::gen::container<std::vector<std::uint8_t>>(count, rc::gen::arbitrary<std::uint8_t>());
  const auto raw = std::as_bytes(std::span(values));
  return {raw.begin(), raw.end()};
}

Drawn draw_tensors() {
  Drawn drawn;
  const auto names =
      *rc::gen::unique<std::vector<std::string>>(rc::gen::nonEmpty(rc::gen::string<std::string>()));
  for (const std::string& any : names) {
    std::string name = "t";  // names are UTF-8: keep to ASCII
    for (const char c : any) name += static_cast<char>(c & 0x7F);
    const auto dtype = static_cast<DType>(*rc::gen::inRange(0, 15));
    auto shape = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(0, 5));
    if (shape.size() > 4) shape.resize(4);
    const std::int64_t elements =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    if (drawn.bytes.contains(name)) continue;
    drawn.bytes[name] = draw_bytes(static_cast<std::size_t>(elements) * size_of(dtype));
    drawn.tensors.push_back({name, dtype, shape});
  }
  return drawn;
}

RC_GTEST_PROP(Safetensors, ReadsBackWhatItWrites, ()) {
  const Drawn drawn = draw_tensors();
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  SafetensorsWriter writer(path, drawn.tensors, {{"key", "välue"}});
  for (const auto& tensor : writer.tensors()) {
    const std::span<const std::byte> bytes = drawn.bytes.at(tensor.name);
    writer.write(bytes.first(bytes.size() / 2));
    writer.write(bytes.subspan(bytes.size() / 2));
  }
  writer.finish();

  const SafetensorsFile file = SafetensorsFile::open(path);
  RC_ASSERT(file.tensors().size() == drawn.tensors.size());
  RC_ASSERT(file.metadata().at("key") == "välue");
  for (const auto& tensor : drawn.tensors) {
    const SafetensorsTensor* read = file.find(tensor.name);
    RC_ASSERT(read != nullptr);
    RC_ASSERT(read->dtype == tensor.dtype);
    RC_ASSERT(read->shape == tensor.shape);
    const Bytes& wanted = drawn.bytes.at(tensor.name);
    RC_ASSERT(std::equal(wanted.begin(), wanted.end(), read->bytes.begin(), read->bytes.end()));
  }
}

// A legal file of three tensors, then a few bytes replaced, cut out or doubled.
std::string draw_corrupted() {
  std::string file = testing::safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
      R"("c":{"dtype":"U8","shape":[0],"data_offsets":[32,32]}})",
      32);
  const int edits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < edits && !file.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, file.size());
    const auto length = *rc::gen::inRange<std::size_t>(1, 9);
    switch (*rc::gen::inRange(0, 5)) {
      case 0: file[at] = *rc::gen::arbitrary<char>(); break;
      case 1: file[at] = *rc::gen::elementOf(std::string("{}[]\",:0123456789-.eE \\u")); break;
      case 2: file.erase(at, length); break;
      case 3: file.insert(at, file.substr(at, length)); break;
      case 4: file.resize(at); break;
    }
  }
  return file;
}

RC_GTEST_PROP(Safetensors, AnswersCorruptionWithAnErrorOrConsistentContents, ()) {
  const std::string file = draw_corrupted();
  try {
    const SafetensorsContents contents =
        parse_safetensors(testing::bytes_of(file), "x.safetensors");
    std::size_t bytes = 0;
    for (const SafetensorsTensor& tensor : contents.tensors) {
      bytes += tensor.bytes.size();
      RC_ASSERT(tensor.bytes.empty() || (tensor.bytes.data() >= testing::bytes_of(file).data() &&
                                         tensor.bytes.data() + tensor.bytes.size() <=
                                             testing::bytes_of(file).data() + file.size()));
    }
    RC_ASSERT(bytes <= file.size());
  } catch (const Error& error) {
    RC_ASSERT(error.coordinate("file") == "x.safetensors");
  }
}

}  // namespace
}  // namespace waybill
