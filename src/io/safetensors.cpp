#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "io/json_document.h"
#include "waybill/error.h"
#include "waybill/tensor.h"

namespace waybill {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t header_limit = 100'000'000;
constexpr std::size_t header_values = std::size_t{4} << 20U;  // half a million tensors

// The format's own names, which are not ours.
constexpr std::array<std::pair<DType, std::string_view>, 15> dtype_names{{
    {DType::f64, "F64"},
    {DType::f32, "F32"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::f8_e4m3, "F8_E4M3"},
    {DType::f8_e5m2, "F8_E5M2"},
    {DType::i64, "I64"},
    {DType::i32, "I32"},
    {DType::i16, "I16"},
    {DType::i8, "I8"},
    {DType::u64, "U64"},
    {DType::u32, "U32"},
    {DType::u16, "U16"},
    {DType::u8, "U8"},
    {DType::boolean, "BOOL"},
}};

struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

Sections split(std::span<const std::byte> file, std::string_view path) {
  const auto truncated = [&](std::uint64_t needed) {
    return Error(Code::FileTruncated)
        .at("file", path)
        .expected(fmt::format("at least {} bytes", needed))
        .found(fmt::format("{} bytes", file.size()));
  };
  if (file.size() < length_bytes) throw truncated(length_bytes);
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) {
    length = length << 8U | std::to_integer<std::uint64_t>(file[i]);
  }
  if (length > header_limit) {
    throw Error(Code::HeaderTooLarge)
        .at("file", path)
        .expected(fmt::format("at most {} bytes", header_limit))
        .found(length);
  }
  if (length > file.size() - length_bytes) throw truncated(length_bytes + length);

  const auto header = file.subspan(length_bytes, length);
  return {{reinterpret_cast<const char*>(header.data()), header.size()},
          file.subspan(length_bytes + length)};
}

// A fault of the JSON text, told as a fault of the header. Integers that are negative or too large
// can only be extents and offsets that no file holds.
Error header_fault(const Error& fault) {
  const auto code = [&] {
    switch (fault.code()) {
      case Code::DocumentMalformed:
      case Code::MissingField: return Code::HeaderMalformed;
      case Code::InvalidValue: return Code::TensorOutsideFile;
      default: return fault.code();
    }
  }();
  Error told(code);
  for (const auto& [coordinate, value] : fault.where()) told.at(coordinate, value);
  return std::move(told.expected(fault.expected_text()).found(fault.found_text()));
}

template <class Body>
auto telling_of_header(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& fault) {
    throw header_fault(fault);
  }
}

// Bytes of a tensor of that shape; nullopt when no file can hold them.
std::optional<std::int64_t> byte_size(std::span<const std::int64_t> shape, DType dtype) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) {
    if (extent > std::numeric_limits<std::int64_t>::max() / bytes) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

struct Declared {
  SafetensorsTensor tensor;
  std::int64_t begin = 0, end = 0;  // in the data section
};

Declared declared(const JsonValue& entry, std::string_view path) {
  if (entry.is(JsonKind::object) && entry.size() > 3) {
    throw entry.error(Code::HeaderMalformed)
        .expected("dtype, shape and data_offsets")
        .found(fmt::format("{} members", entry.size()));
  }
  const std::string_view dtype_name = entry.at("dtype").as_string();
  const std::optional<DType> dtype = dtype_of_safetensors(dtype_name);
  if (!dtype) {
    throw Error(Code::UnknownDtype)
        .at("file", path)
        .at("tensor", entry.key())
        .found(entry.at("dtype").text());
  }
  const std::vector<std::int64_t> offsets = entry.at("data_offsets").as_integers(0);
  if (offsets.size() != 2) {
    throw entry.at("data_offsets")
        .error(Code::HeaderMalformed)
        .expected("[begin, end]")
        .found(fmt::format("{} numbers", offsets.size()));
  }

  Declared result{{std::string(entry.key()), *dtype, entry.at("shape").as_integers(0), {}},
                  offsets[0],
                  offsets[1]};
  const std::optional<std::int64_t> bytes = byte_size(result.tensor.shape, *dtype);
  if (!bytes || result.end < result.begin || result.end - result.begin != *bytes) {
    throw Error(Code::TensorOutsideFile)
        .at("file", path)
        .at("tensor", entry.key())
        .expected(fmt::format("{} bytes for {} of {}",
                              bytes ? std::to_string(*bytes) : "more than 2^63",
                              shape_text(result.tensor.shape), dtype_name))
        .found(fmt::format("bytes {} to {}", result.begin, result.end));
  }
  return result;
}

Error outside(const Declared& tensor, std::int64_t size, std::string_view path) {
  return Error(Code::TensorOutsideFile)
      .at("file", path)
      .at("tensor", tensor.tensor.name)
      .expected(fmt::format("an end within {} data bytes", size))
      .found(fmt::format("bytes {} to {}", tensor.begin, tensor.end));
}

// The format wants the tensors to cover the data section without holes, each byte once.
void check_cover(std::span<const Declared> by_offset, std::size_t data_size, std::string_view path,
                 Faults& faults) {
  const auto size = static_cast<std::int64_t>(data_size);
  const std::size_t before = faults.size();
  std::int64_t covered = 0;
  std::string_view last = "(none)";
  for (const Declared& next : by_offset) {
    const Declared& furthest = by_offset.back();
    if (next.begin > covered && furthest.end > size) {
      faults.report(outside(furthest, size, path));
      return;
    }
    if (next.begin != covered) {
      faults.report(Error(next.begin < covered ? Code::TensorOverlap
                          : next.end > size    ? Code::TensorOutsideFile
                                               : Code::HeaderMalformed)
                        .at("file", path)
                        .at("tensor", next.tensor.name)
                        .at("after", last)
                        .expected(fmt::format("a beginning at {} of {} data bytes", covered, size))
                        .found(fmt::format("bytes {} to {}", next.begin, next.end)));
    }
    covered = std::max(covered, next.end);
    last = next.tensor.name;
  }
  if (covered != size && faults.size() == before) {
    faults.report(Error(covered > size ? Code::FileTruncated : Code::HeaderMalformed)
                      .at("file", path)
                      .at("tensor", last)
                      .expected(fmt::format("{} data bytes", covered))
                      .found(size));
  }
}

// A tensor that isn't declared well is reported and left out.
std::vector<Declared> read_header(const JsonValue& root, std::string_view path,
                                  std::map<std::string, std::string>& metadata, Faults& faults) {
  std::vector<Declared> tensors;
  for (const JsonValue entry : root.members()) {
    faults.attempt([&] {
      telling_of_header([&] {
        if (entry.key() != "__metadata__") {
          tensors.push_back(declared(entry, path));
          return;
        }
        for (const JsonValue item : entry.members()) metadata.emplace(item.key(), item.as_string());
      });
    });
  }
  return tensors;
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  return std::find_if(dtype_names.begin(), dtype_names.end(),
                      [&](const auto& pair) { return pair.first == dtype; })
      ->second;
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const auto& [dtype, known] : dtype_names) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view path) {
  Faults first;
  return parse_safetensors(file, path, first);
}

SafetensorsContents parse_safetensors(std::span<const std::byte> file, std::string_view path,
                                      Faults& faults) {
  const Sections sections = split(file, path);
  const std::string_view header = sections.header;
  if (!header.starts_with('{')) {
    throw Error(Code::HeaderMalformed)
        .at("file", path)
        .expected("a header that begins with {")
        .found(header.empty() ? "an empty one" : header.substr(0, 8));
  }
  SafetensorsContents contents;
  const JsonDocument document = telling_of_header([&] {
    return JsonDocument::parse(header, path,
                               {.bytes = header_limit, .values = header_values, .depth = 3});
  });
  const std::size_t before = faults.size();
  std::vector<Declared> tensors = read_header(document.root(), path, contents.metadata, faults);
  // What is left of a header would seem to have holes.
  if (faults.size() > before) return contents;
  std::sort(tensors.begin(), tensors.end(), [](const Declared& a, const Declared& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  check_cover(tensors, sections.data.size(), path, faults);
  if (faults.size() > before) return contents;

  contents.tensors.reserve(tensors.size());
  for (Declared& declared : tensors) {
    declared.tensor.bytes =
        sections.data.subspan(static_cast<std::size_t>(declared.begin),
                              static_cast<std::size_t>(declared.end - declared.begin));
    contents.tensors.push_back(std::move(declared.tensor));
  }
  return contents;
}

SafetensorsFile::SafetensorsFile(std::string path, MappedFile mapping, Faults& faults)
    : path_(std::move(path)),
      mapping_(std::move(mapping)),
      contents_(parse_safetensors(mapping_.bytes(), path_, faults)) {}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  Faults first;
  return open(path, first);
}

SafetensorsFile SafetensorsFile::open(const std::string& path, Faults& faults) {
  return SafetensorsFile(path, MappedFile::open(path), faults);
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::find_if(contents_.tensors.begin(), contents_.tensors.end(),
                   [&](const SafetensorsTensor& tensor) { return tensor.name == name; });
  return found == contents_.tensors.end() ? nullptr : &*found;
}

}  // namespace waybill
