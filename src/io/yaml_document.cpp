#include "io/yaml_document.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace waybill {
namespace {

// Whether a plain scalar is a number of JSON as it stands.
bool is_json_number(std::string_view text) {
  const bool number =
      !text.empty() && text.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  return number && nlohmann::json::accept(text);
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string plain_value(std::string_view text) {
  if (text.empty() || text == "~") return "null";
  const bool literal = text == "true" || text == "false" || text == "null";
  return literal || is_json_number(text) ? std::string(text) : json_string(text);
}

// Events of libyaml to JSON text.
class YamlTranslator {
 public:
  YamlTranslator(std::string_view text, std::string_view file, const JsonLimits& limits)
      : file_(file), limits_(limits) {
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  YamlTranslator(const YamlTranslator&) = delete;
  YamlTranslator& operator=(const YamlTranslator&) = delete;
  ~YamlTranslator() { yaml_parser_delete(&parser_); }

  std::string run() {
    while (step()) {
    }
    return json_.empty() ? "null" : json_;
  }

 private:
  struct Container {
    bool mapping;
    std::size_t parts = 0;  // keys and values each count
  };

  bool step() {
    yaml_event_t event;
    if (yaml_parser_parse(&parser_, &event) == 0) {
      throw malformed(parser_.problem_mark.line)
          .found(parser_.problem != nullptr ? parser_.problem : "other bytes");
    }
    const struct Release {
      yaml_event_t* event;
      ~Release() { yaml_event_delete(event); }
    } release{&event};
    return take(event);
  }

  bool take(const yaml_event_t& event) {
    const std::size_t line = event.start_mark.line;
    switch (event.type) {
      case YAML_STREAM_END_EVENT: return false;
      case YAML_DOCUMENT_START_EVENT:
        if (!json_.empty()) throw malformed(line).found("a second document");
        return true;
      case YAML_ALIAS_EVENT: throw malformed(line).found("an alias");
      case YAML_SCALAR_EVENT: take_scalar(event, line); return true;
      case YAML_SEQUENCE_START_EVENT:
        plain_only(event.data.sequence_start.anchor, event.data.sequence_start.tag, line);
        open(false, line);
        return true;
      case YAML_MAPPING_START_EVENT:
        plain_only(event.data.mapping_start.anchor, event.data.mapping_start.tag, line);
        open(true, line);
        return true;
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        json_ += open_.back().mapping ? '}' : ']';
        open_.pop_back();
        return true;
      default: return true;
    }
  }

  Error malformed(std::size_t line) const {
    return Error(Code::DocumentMalformed)
        .at("file", file_)
        .at("line", line + 1)
        .expected("a YAML document without anchors and tags");
  }
  void plain_only(const unsigned char* anchor, const unsigned char* tag, std::size_t line) const {
    if (anchor != nullptr) throw malformed(line).found("an anchor");
    if (tag != nullptr) throw malformed(line).found("a tag");
  }

  // The comma or colon before a part of the innermost container; says whether the part is a key.
  bool begin_part() {
    if (open_.empty()) return false;
    Container& inside = open_.back();
    const bool value = inside.mapping && inside.parts % 2 == 1;
    if (value) {
      json_ += ':';
    } else if (inside.parts > 0) {
      json_ += ',';
    }
    ++inside.parts;
    return inside.mapping && !value;
  }

  void open(bool mapping, std::size_t line) {
    if (begin_part()) throw malformed(line).found("a key that is no scalar");
    if (open_.size() >= limits_.depth) throw malformed(line).found("deeper nesting");
    open_.push_back({mapping});
    json_ += mapping ? '{' : '[';
  }

  void take_scalar(const yaml_event_t& event, std::size_t line) {
    const auto& scalar = event.data.scalar;
    plain_only(scalar.anchor, scalar.tag, line);
    const std::string_view text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    const bool key = begin_part(), plain = scalar.style == YAML_PLAIN_SCALAR_STYLE;
    json_ += key || !plain ? json_string(text) : plain_value(text);
  }

  std::string_view file_;
  const JsonLimits& limits_;
  yaml_parser_t parser_{};
  std::vector<Container> open_;
  std::string json_;
};

}  // namespace

JsonDocument parse_yaml(std::string_view text, std::string_view file, const JsonLimits& limits) {
  return JsonDocument::parse(YamlTranslator(text, file, limits).run(), file, limits);
}

}  // namespace waybill
