// Writes a safetensors file piece by piece: the same tensors and bytes give the same file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "waybill/dtype.h"

namespace waybill {

//   SafetensorsWriter writer(path, tensors);
//   for (const auto& tensor : writer.tensors()) writer.write(bytes_of(tensor));
//   writer.finish();
// The file appears under its name when it is whole; without finish() nothing is left behind.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<std::int64_t> shape;  // extents >= 0
  };

  // Writes the header. DuplicateKey (tensor) when a name stands twice or is "__metadata__";
  // FileUnwritable.
  SafetensorsWriter(std::string path, std::vector<Tensor> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // In the order in which their bytes are expected: wide elements first, so that every tensor is
  // aligned to its element, then by name.
  std::span<const Tensor> tensors() const { return tensors_; }
  // The next bytes of the data section; a tensor may come in any number of pieces.
  void write(std::span<const std::byte> bytes);
  // Every declared byte must have been written. FileUnwritable.
  void finish();

 private:
  // Closes the file and removes it under the name it has until it is whole.
  struct Discard {
    std::string partial;
    void operator()(std::FILE* file) const {
      std::fclose(file);
      std::remove(partial.c_str());
    }
  };

  std::string path_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<std::FILE, Discard> file_;
  std::uint64_t remaining_ = 0;  // data bytes
};

}  // namespace waybill
