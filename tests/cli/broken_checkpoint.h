// A copy of a shipped checkpoint in which one thing is wrong.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temporary_folder.h"

namespace waybill::testing {

class BrokenCheckpoint {
 public:
  explicit BrokenCheckpoint(const std::string& family);

  std::string path() const { return folder_.path(); }
  std::string weights() const { return folder_.file("model.safetensors"); }
  std::string config() const { return folder_.file("config.json"); }
  std::string golden() const { return folder_.file("golden.safetensors"); }

  using Edit = std::function<void(nlohmann::ordered_json&)>;
  void edit_config(const Edit& edit) const;
  // Edits the JSON header of a safetensors file and writes it back with the data as it was.
  void edit_header(const std::string& file, const Edit& edit) const;
  // Replaces the header's text, its length field included.
  void replace_header(const std::string& text) const;
  // Overwrites bytes of a file.
  void overwrite(const std::string& file, std::size_t offset, const std::string& bytes) const;
  // First byte of a tensor's data in a safetensors file.
  std::size_t offset_of(const std::string& file, const std::string& tensor) const;

 private:
  TemporaryFolder folder_;
};

}  // namespace waybill::testing
