// NumPy archives: zip files of .npy arrays, stored or deflated.
// Source: numpy.lib.format, versions 1.0 to 3.0; the zip format's APPNOTE without zip64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/dtype.h"

namespace waybill {

// Elements stand row-major and little-endian.
struct NpyArray {
  std::string name;  // without .npy
  DType dtype = DType::i64;
  std::vector<std::int64_t> shape;
  std::string bytes;

  // Elements as numbers; 64-bit integers above 2^53 are rounded.
  std::vector<double> numbers() const;
};

class NpzFile {
 public:
  // Everything is checked before it is believed: FileUnreadable, FileTruncated, DocumentMalformed,
  // UnknownDtype, DuplicateKey, each with file and array. At most 2 GiB unpacked.
  static NpzFile open(const std::string& path);

  std::span<const NpyArray> arrays() const { return arrays_; }
  const NpyArray* find(std::string_view name) const;  // null when there is none
  const NpyArray& at(std::string_view name) const;    // MissingField
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<NpyArray> arrays_;
};

// A whole archive, its arrays stored. The same arrays give the same bytes.
std::string npz_bytes(std::span<const NpyArray> arrays);

}  // namespace waybill
