#include "io/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "io/json_tree.h"

namespace waybill {
namespace {

constexpr std::size_t longest_shown = 80;
constexpr std::size_t longest_label = 256;

std::string shortened(std::string_view text) {
  if (text.size() <= longest_shown) return std::string(text);
  std::size_t cut = longest_shown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;  // UTF-8
  return std::string(text.substr(0, cut)) + "…";
}

}  // namespace

std::string_view name(JsonKind kind) {
  switch (kind) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return "boolean";
    case JsonKind::integer: return "integer";
    case JsonKind::number: return "number";
    case JsonKind::string: return "string";
    case JsonKind::array: return "array";
    case JsonKind::object: return "object";
  }
  return "?";
}

JsonKind JsonValue::kind() const { return tree_->nodes[node_].kind; }

void JsonValue::want(JsonKind wanted) const {
  if (!is(wanted)) throw error(Code::DocumentMalformed).expected(wanted).found(text());
}

bool JsonValue::as_bool() const {
  want(JsonKind::boolean);
  return tree_->nodes[node_].boolean;
}

std::int64_t JsonValue::as_integer(std::int64_t low, std::int64_t high) const {
  // Beyond int64 the parser keeps integers as numbers: those are out of range, not of a wrong kind.
  constexpr double int64_end = 9223372036854775808.0;
  const bool too_large = is(JsonKind::number) && std::abs(as_number()) >= int64_end;
  if (!too_large) want(JsonKind::integer);
  const std::int64_t value = tree_->nodes[node_].integer;
  if (too_large || value < low || value > high) {
    throw error(Code::InvalidValue)
        .expected(fmt::format("an integer from {} to {}", low, high))
        .found(text());
  }
  return value;
}

double JsonValue::as_number() const {
  if (is(JsonKind::integer)) return static_cast<double>(tree_->nodes[node_].integer);
  want(JsonKind::number);
  return tree_->nodes[node_].number;
}

std::string_view JsonValue::as_string() const {
  want(JsonKind::string);
  return tree_->view(tree_->nodes[node_].string);
}

std::string_view JsonValue::as_label() const {
  const std::string_view label = as_string();
  if (label.empty() || label.size() > longest_label) {
    throw error(Code::InvalidValue)
        .expected(fmt::format("a text of 1 to {} bytes", longest_label))
        .found(label.empty() ? "an empty one" : fmt::format("{} bytes", label.size()));
  }
  return label;
}

std::vector<std::int64_t> JsonValue::as_integers(std::int64_t low, std::int64_t high) const {
  std::vector<std::int64_t> values;
  for (const JsonValue element : elements()) values.push_back(element.as_integer(low, high));
  return values;
}

JsonChildren JsonValue::elements() const {
  want(JsonKind::array);
  return {tree_, tree_->nodes[node_].first};
}

JsonChildren JsonValue::members() const {
  want(JsonKind::object);
  return {tree_, tree_->nodes[node_].first};
}

std::size_t JsonValue::size() const {
  if (!is(JsonKind::object)) want(JsonKind::array);
  return tree_->nodes[node_].count;
}

std::string_view JsonValue::key() const { return tree_->view(tree_->nodes[node_].key); }

std::optional<JsonValue> JsonValue::find(std::string_view wanted) const {
  for (const JsonValue member : members()) {
    if (member.key() == wanted) return member;
  }
  return std::nullopt;
}

JsonValue JsonValue::at(std::string_view wanted) const {
  if (const auto member = find(wanted)) return *member;
  const std::string parent = path();
  throw Error(Code::MissingField)
      .at("file", tree_->file)
      .at("field", parent.empty() ? std::string(wanted) : fmt::format("{}.{}", parent, wanted));
}

const std::string& JsonValue::file() const { return tree_->file; }

std::string JsonValue::path() const {
  std::vector<std::string> steps;  // from this value up to the root
  for (std::uint32_t at = node_; at != 0; at = tree_->nodes[at].parent) {
    const std::uint32_t parent = tree_->nodes[at].parent;
    if (tree_->nodes[parent].kind == JsonKind::object) {
      const std::string key = shortened(tree_->view(tree_->nodes[at].key));
      steps.push_back(parent == 0 ? key : fmt::format(".{}", key));
    } else {
      std::size_t position = 0;
      for (std::uint32_t i = tree_->nodes[parent].first; i != at; i = tree_->nodes[i].next) {
        ++position;
      }
      steps.push_back(fmt::format("[{}]", position));
    }
  }
  std::string path;
  std::for_each(steps.rbegin(), steps.rend(), [&](const std::string& step) { path += step; });
  return path;
}

std::string JsonValue::text() const {
  const JsonTree::Node& node = tree_->nodes[node_];
  switch (node.kind) {
    case JsonKind::boolean: return node.boolean ? "true" : "false";
    case JsonKind::integer: return std::to_string(node.integer);
    case JsonKind::number: return fmt::format("{}", node.number);
    case JsonKind::string: return fmt::format("\"{}\"", shortened(tree_->view(node.string)));
    case JsonKind::null:
    case JsonKind::array:
    case JsonKind::object: break;
  }
  return std::string(name(node.kind));
}

Error JsonValue::error(Code code) const {
  const std::string field = path();
  return Error(code).at("file", tree_->file).at("field", field.empty() ? "(document)" : field);
}

JsonChildren::iterator& JsonChildren::iterator::operator++() {
  node_ = tree_->nodes[node_].next;
  return *this;
}

JsonDocument::JsonDocument(std::unique_ptr<const JsonTree> tree) : tree_(std::move(tree)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

const std::string& JsonDocument::file() const { return tree_->file; }
JsonValue JsonDocument::root() const& { return {tree_.get(), 0}; }

}  // namespace waybill
