#include "placement/formats/json_source.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "io/inflate.h"
#include "io/text_file.h"
#include "io/yaml_document.h"
#include "io/zip_archive.h"

namespace waybill {
namespace {

constexpr std::size_t most_text = std::size_t{1} << 30U;

constexpr auto non_numbers = std::to_array<std::string_view>({"-Infinity", "Infinity", "NaN"});

// The text with those of Python's words that stand outside strings in quotes.
std::string quote_non_numbers(std::string text) {
  if (text.find("NaN") == std::string::npos && text.find("Infinity") == std::string::npos) {
    return text;
  }
  std::string quoted;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = std::string_view(text).substr(i);
    std::string_view word;
    for (std::string_view known : non_numbers) {
      if (!in_string && word.empty() && rest.starts_with(known)) word = known;
    }
    if (!word.empty()) {
      quoted += '"';
      quoted += word;
      quoted += '"';
      i += word.size();
      continue;
    }
    const std::size_t step = in_string && text[i] == '\\' ? 2 : 1;
    if (text[i] == '"') in_string = !in_string;
    quoted += rest.substr(0, step);
    i += step;
  }
  return quoted;
}

void refuse_torch_file(std::string_view text, const std::string& path) {
  const bool pickle = text.starts_with("\x80\x02") || text.starts_with("\x80\x04");
  if (!pickle && !is_zip(text)) return;
  throw Error(Code::UnknownFormat)
      .at("file", path)
      .expected("JSON")
      .found(pickle || path.ends_with(".pt") ? "a PyTorch file" : "a zip archive")
      .note(
          "python -m waybill.sglang_pt FILE.pt FILE.json converts a PyTorch file, executing "
          "nothing in it");
}

}  // namespace

JsonDocument read_json_source(const std::string& path) {
  JsonLimits limits;
  limits.bytes = most_text;
  std::string text = read_text_file(path, most_text);
  if (is_gzip(text)) text = unpack(text, Packing::gzip, most_text, path);
  refuse_torch_file(text, path);
  return JsonDocument::parse(quote_non_numbers(std::move(text)), path, limits);
}

JsonDocument read_yaml_source(const std::string& path) {
  return parse_yaml(read_text_file(path, JsonLimits{}.bytes), path);
}

bool is_yaml_name(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

}  // namespace waybill
