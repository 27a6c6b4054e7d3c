#include "cli/broken_checkpoint.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace waybill::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t length_bytes = 8;

std::string read(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

std::size_t header_length(const std::string& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), length_bytes);
  return length;
}

std::string with_header(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(length_bytes, '\0');
  std::memcpy(bytes.data(), &length, length_bytes);
  return bytes.append(header).append(data);
}

}  // namespace

BrokenCheckpoint::BrokenCheckpoint(const std::string& family) {
  for (const auto& entry : std::filesystem::directory_iterator(std::string(WAYBILL_TEST_DATA) +
                                                               "/checkpoints/" + family)) {
    write(folder_.file(entry.path().filename().string()), read(entry.path().string()));
  }
}

void BrokenCheckpoint::edit_config(const Edit& edit) const {
  Json config = Json::parse(read(this->config()));
  edit(config);
  write(this->config(), config.dump(1));
}

void BrokenCheckpoint::edit_header(const std::string& file, const Edit& edit) const {
  const std::string bytes = read(file);
  const std::size_t length = header_length(bytes);
  Json header = Json::parse(bytes.substr(length_bytes, length));
  edit(header);
  write(file, with_header(header.dump(), bytes.substr(length_bytes + length)));
}

void BrokenCheckpoint::replace_header(const std::string& text) const {
  const std::string bytes = read(weights());
  write(weights(), with_header(text, bytes.substr(length_bytes + header_length(bytes))));
}

void BrokenCheckpoint::overwrite(const std::string& file, std::size_t offset,
                                 const std::string& bytes) const {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream << bytes;
}

std::size_t BrokenCheckpoint::offset_of(const std::string& file, const std::string& tensor) const {
  const std::string bytes = read(file);
  const std::size_t length = header_length(bytes);
  const Json header = Json::parse(bytes.substr(length_bytes, length));
  return length_bytes + length + header.at(tensor).at("data_offsets").at(0).get<std::size_t>();
}

}  // namespace waybill::testing
