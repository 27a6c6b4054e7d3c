// Safetensors files: 8 bytes of header length (little-endian), a JSON header, the tensors' bytes.
// Source: the format description and reference reader of github.com/huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/faults.h"
#include "io/mapped_file.h"
#include "waybill/dtype.h"

namespace waybill {

// One tensor as the header declares it. `bytes` are row-major and may lie at any address: the
// format doesn't promise alignment to the element size.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

struct SafetensorsContents {
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// Reads a whole file that is in memory; the result's spans point into `file`. Everything is checked
// before anything is believed: HeaderTooLarge, FileTruncated, HeaderMalformed (also bytes that
// belong to no tensor), DuplicateKey, UnknownDtype, TensorOutsideFile, TensorOverlap, each with
// file, tensor or field. `path` names the source in errors.
SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view path);
// With faults that are kept, the result is only fit to be thrown away.
SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view path,
                                      Faults& faults);

// The format's name of a dtype ("BF16") and back; nullopt when this build doesn't read it.
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_of_safetensors(std::string_view name);

// A mapped file and what is in it.
class SafetensorsFile {
 public:
  // FileUnreadable and the errors of parse_safetensors.
  static SafetensorsFile open(const std::string& path);
  static SafetensorsFile open(const std::string& path, Faults& faults);

  const std::string& path() const { return path_; }
  std::span<const SafetensorsTensor> tensors() const { return contents_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }
  // Null when the file has no tensor of that name. A linear search.
  const SafetensorsTensor* find(std::string_view name) const;
  void drop_pages(const SafetensorsTensor& tensor) const { mapping_.drop(tensor.bytes); }

 private:
  SafetensorsFile(std::string path, MappedFile mapping, Faults& faults);
  std::string path_;
  MappedFile mapping_;
  SafetensorsContents contents_;
};

}  // namespace waybill
