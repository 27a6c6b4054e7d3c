// Safetensors files at random: what is written is read back, and no corruption does worse than an
// Error.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/safetensors_bytes.h"
#include "io/safetensors_writer.h"
#include "property/property.h"
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
  std::mt19937_64 random(property::draw_bits());
  Bytes bytes(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

Drawn draw_tensors() {
  Drawn drawn;
  const int tensors = property::draw(0, 30);
  for (int i = 0; i < tensors; ++i) {
    std::string name = "t";  // names are UTF-8: keep to ASCII
    const int letters = property::draw(0, 12);
    for (int c = 0; c < letters; ++c) name += static_cast<char>(property::draw(0, 0x80));
    const auto dtype = static_cast<DType>(property::draw(0, 15));
    const auto shape =
        property::draw_integers<std::int64_t>(property::draw<std::size_t>(0, 5), 0, 5);
    const std::int64_t elements =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    if (drawn.bytes.contains(name)) continue;
    drawn.bytes[name] = draw_bytes(static_cast<std::size_t>(elements) * size_of(dtype));
    drawn.tensors.push_back({name, dtype, shape});
  }
  return drawn;
}

PROPERTY(Safetensors, ReadsBackWhatItWrites) {
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
  HOLDS(file.tensors().size() == drawn.tensors.size());
  HOLDS(file.metadata().at("key") == "välue");
  for (const auto& tensor : drawn.tensors) {
    const SafetensorsTensor* read = file.find(tensor.name);
    HOLDS(read != nullptr);
    HOLDS(read->dtype == tensor.dtype);
    HOLDS(read->shape == tensor.shape);
    const Bytes& wanted = drawn.bytes.at(tensor.name);
    HOLDS(std::equal(wanted.begin(), wanted.end(), read->bytes.begin(), read->bytes.end()));
  }
}

// A legal file of three tensors, then a few bytes replaced, cut out or doubled.
std::string draw_corrupted() {
  std::string file = testing::safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
      R"("c":{"dtype":"U8","shape":[0],"data_offsets":[32,32]}})",
      32);
  const int edits = property::draw(1, 6);
  for (int i = 0; i < edits && !file.empty(); ++i) {
    const auto at = property::draw<std::size_t>(0, file.size());
    const auto length = property::draw<std::size_t>(1, 9);
    switch (property::draw(0, 5)) {
      case 0: file[at] = property::draw_char(); break;
      case 1: file[at] = property::draw_from(std::string("{}[]\",:0123456789-.eE \\u")); break;
      case 2: file.erase(at, length); break;
      case 3: file.insert(at, file.substr(at, length)); break;
      case 4: file.resize(at); break;
    }
  }
  return file;
}

PROPERTY(Safetensors, AnswersCorruptionWithAnErrorOrConsistentContents) {
  const std::string file = draw_corrupted();
  try {
    const SafetensorsContents contents =
        parse_safetensors(testing::bytes_of(file), "x.safetensors");
    std::size_t bytes = 0;
    for (const SafetensorsTensor& tensor : contents.tensors) {
      bytes += tensor.bytes.size();
      HOLDS(tensor.bytes.empty() || (tensor.bytes.data() >= testing::bytes_of(file).data() &&
                                     tensor.bytes.data() + tensor.bytes.size() <=
                                         testing::bytes_of(file).data() + file.size()));
    }
    HOLDS(bytes <= file.size());
  } catch (const Error& error) {
    HOLDS(error.coordinate("file") == "x.safetensors");
  }
}

}  // namespace
}  // namespace waybill
