#include "io/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "io/mapped_file.h"
#include "io/zip_archive.h"
#include "waybill/error.h"

namespace waybill {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t most_unpacked = std::size_t{2} << 30U;
constexpr std::string_view npy_mark = "\x93NUMPY";

struct NpyType {
  std::string_view descr;
  DType dtype;
};
constexpr auto npy_types = std::to_array<NpyType>({{"<f8", DType::f64},
                                                   {"<f4", DType::f32},
                                                   {"<i8", DType::i64},
                                                   {"<i4", DType::i32},
                                                   {"<i2", DType::i16},
                                                   {"|i1", DType::i8},
                                                   {"<u8", DType::u64},
                                                   {"<u4", DType::u32},
                                                   {"<u2", DType::u16},
                                                   {"|u1", DType::u8},
                                                   {"|b1", DType::boolean}});

// The dictionary literal of a .npy header, as numpy writes it.
class NpyHeader {
 public:
  NpyHeader(std::string_view text, const ZipEntry& entry, std::string_view file)
      : text_(text), entry_(entry), file_(file) {}

  void read(NpyArray& array) const {
    const std::string_view descr = quoted(value_of("'descr':"));
    const auto type = std::ranges::find(npy_types, descr, &NpyType::descr);
    if (type == npy_types.end()) throw fault(Code::UnknownDtype).found(descr);
    array.dtype = type->dtype;
    if (!value_of("'fortran_order':").starts_with("False")) {
      throw fault(Code::DocumentMalformed).expected("rows in C order");
    }
    array.shape = extents(value_of("'shape':"));
  }

 private:
  Error fault(Code code) const { return Error(code).at("file", file_).at("array", entry_.name); }
  std::string_view value_of(std::string_view key) const {
    const std::size_t at = text_.find(key);
    if (at == std::string_view::npos) {
      throw fault(Code::DocumentMalformed).expected(fmt::format("{} in its header", key));
    }
    std::string_view value = text_.substr(at + key.size());
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    return value;
  }
  std::string_view quoted(std::string_view value) const {
    const std::size_t end = value.find('\'', 1);
    if (!value.starts_with('\'') || end == std::string_view::npos) {
      throw fault(Code::UnknownDtype).found("a structured type");
    }
    return value.substr(1, end - 1);
  }
  // "(58, 12, 256)", "(7,)", "()"
  std::vector<std::int64_t> extents(std::string_view value) const {
    std::vector<std::int64_t> shape;
    const std::size_t end = value.find(')');
    if (!value.starts_with('(') || end == std::string_view::npos) malformed_shape(value);
    std::string_view list = value.substr(1, end - 1);
    while (!list.empty()) {
      std::int64_t extent = -1;
      const auto [rest, failure] = std::from_chars(list.data(), list.data() + list.size(), extent);
      if (failure != std::errc{} || extent < 0) malformed_shape(value);
      shape.push_back(extent);
      list.remove_prefix(static_cast<std::size_t>(rest - list.data()));
      if (!list.empty() && list[0] != ',') malformed_shape(value);
      list.remove_prefix(std::min(list.find_first_not_of(", "), list.size()));
    }
    return shape;
  }
  [[noreturn]] void malformed_shape(std::string_view value) const {
    throw fault(Code::DocumentMalformed).expected("a shape").found(value.substr(0, 40));
  }

  std::string_view text_;
  const ZipEntry& entry_;
  std::string_view file_;
};

// Elements times their size, or nullopt when that is beyond any file.
std::optional<std::size_t> bytes_of(const NpyArray& array) {
  std::size_t bytes = size_of(array.dtype);
  for (std::int64_t extent : array.shape) {
    const auto n = static_cast<std::size_t>(extent);
    if (n != 0 && bytes > most_unpacked / n) return std::nullopt;
    bytes *= n;
  }
  return bytes;
}

NpyArray read_npy(const ZipEntry& entry, std::string_view file) {
  std::string bytes = zip_contents(entry, file);
  const auto truncated = [&] {
    return Error(Code::FileTruncated).at("file", file).at("array", entry.name);
  };
  if (!bytes.starts_with(npy_mark)) {
    throw Error(Code::DocumentMalformed)
        .at("file", file)
        .at("entry", entry.name)
        .expected("a .npy array");
  }
  if (bytes.size() < 12) throw truncated();
  const auto digit = [&](std::size_t i) {
    return std::size_t{static_cast<unsigned char>(bytes[i])};
  };
  const bool short_length = digit(6) == 1;
  const std::size_t start = short_length ? 10 : 12;
  std::size_t length = digit(8) | digit(9) << 8U;
  if (!short_length) length |= digit(10) << 16U | digit(11) << 24U;
  if (length > bytes.size() - start) throw truncated();

  NpyArray array;
  array.name = entry.name.substr(0, entry.name.size() - std::string_view(".npy").size());
  NpyHeader(std::string_view(bytes).substr(start, length), entry, file).read(array);
  if (bytes_of(array) != bytes.size() - start - length) {
    throw truncated()
        .expected(fmt::format("[{}] of {}", fmt::join(array.shape, ", "), name(array.dtype)))
        .found(fmt::format("{} bytes", bytes.size() - start - length));
  }
  bytes.erase(0, start + length);
  array.bytes = std::move(bytes);
  return array;
}

template <class T>
std::vector<double> widened(std::string_view bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(value);
  }
  return numbers;
}

}  // namespace

std::vector<double> NpyArray::numbers() const {
  switch (dtype) {
    case DType::f64: return widened<double>(bytes);
    case DType::f32: return widened<float>(bytes);
    case DType::i64: return widened<std::int64_t>(bytes);
    case DType::i32: return widened<std::int32_t>(bytes);
    case DType::i16: return widened<std::int16_t>(bytes);
    case DType::i8: return widened<std::int8_t>(bytes);
    case DType::u64: return widened<std::uint64_t>(bytes);
    case DType::u32: return widened<std::uint32_t>(bytes);
    case DType::u16: return widened<std::uint16_t>(bytes);
    case DType::u8:
    case DType::boolean: return widened<std::uint8_t>(bytes);
    default: return {};  // open() reads no others
  }
}

NpzFile NpzFile::open(const std::string& path) {
  const MappedFile mapping = MappedFile::open(path);
  const std::string_view archive(reinterpret_cast<const char*>(mapping.bytes().data()),
                                 mapping.bytes().size());
  NpzFile file;
  file.path_ = path;
  std::size_t unpacked = 0;
  for (const ZipEntry& entry : zip_entries(archive, path)) {
    if (!entry.name.ends_with(".npy")) continue;
    unpacked += entry.size;
    if (unpacked > most_unpacked) {
      throw Error(Code::DocumentMalformed)
          .at("file", path)
          .expected(fmt::format("at most {} unpacked bytes", most_unpacked));
    }
    file.arrays_.push_back(read_npy(entry, path));
  }
  return file;
}

const NpyArray* NpzFile::find(std::string_view name) const {
  const auto array = std::ranges::find(arrays_, name, &NpyArray::name);
  return array == arrays_.end() ? nullptr : &*array;
}

const NpyArray& NpzFile::at(std::string_view name) const {
  if (const NpyArray* array = find(name)) return *array;
  throw Error(Code::MissingField).at("file", path_).at("array", name);
}

std::string npz_bytes(std::span<const NpyArray> arrays) {
  ZipWriter archive;
  for (const NpyArray& array : arrays) {
    const auto* const type = std::ranges::find(npy_types, array.dtype, &NpyType::dtype);
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type->descr,
                    fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
    // Numpy pads the header so that data begins at a multiple of 64.
    header.append(63 - (npy_mark.size() + 4 + header.size()) % 64, ' ');
    header += '\n';
    std::string npy(npy_mark);
    npy += '\1';
    npy += '\0';
    npy += static_cast<char>(header.size() & 0xFFU);
    npy += static_cast<char>(header.size() >> 8U);
    archive.add(array.name + ".npy", npy + header + array.bytes);
  }
  return std::move(archive).finish();
}

}  // namespace waybill
