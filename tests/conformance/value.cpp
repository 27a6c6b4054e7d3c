#include "conformance/value.h"

#include <fmt/format.h>

namespace waybill::conformance {
namespace {

std::string escaped(std::string_view key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

// Puts the way from `at` to `wanted` before `pointer`, last step first; false when it isn't there.
bool find_way(const Json& at, const Json* wanted, std::string& pointer) {
  if (&at == wanted) return true;
  if (!at.is_structured()) return false;
  std::size_t position = 0;
  for (auto child = at.begin(); child != at.end(); ++child, ++position) {
    if (!find_way(*child, wanted, pointer)) continue;
    pointer = escaped(at.is_object() ? child.key() : std::to_string(position)) + pointer;
    return true;
  }
  return false;
}

}  // namespace

std::string shown(const Json& json) {
  constexpr std::size_t longest = 120;
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

Error Value::error(Code code) const { return Error(code).at("file", *file_).at("at", pointer()); }

std::string Value::pointer() const {
  std::string pointer;
  find_way(*document_, json_, pointer);
  return pointer;
}

Error Value::wrong_kind(std::string_view expected) const {
  return error(Code::DocumentMalformed).expected(expected).found(shown(*json_));
}

std::optional<Value> Value::find(std::string_view key) const {
  if (!json_->is_object()) return std::nullopt;
  const auto found = json_->find(key);
  if (found == json_->end()) return std::nullopt;
  return Value(*found, *this);
}

Value Value::at(std::string_view key) const {
  if (!json_->is_object()) throw wrong_kind("an object");
  if (auto value = find(key)) return *value;
  throw error(Code::MissingField).expected(key).found("no such member");
}

std::vector<Value> Value::elements() const {
  if (!json_->is_array()) throw wrong_kind("an array");
  std::vector<Value> values;
  for (const Json& element : *json_) values.push_back(Value(element, *this));
  return values;
}

std::vector<std::pair<std::string, Value>> Value::members() const {
  if (!json_->is_object()) throw wrong_kind("an object");
  std::vector<std::pair<std::string, Value>> values;
  for (auto member = json_->begin(); member != json_->end(); ++member) {
    values.emplace_back(member.key(), Value(*member, *this));
  }
  return values;
}

std::int64_t Value::integer(std::int64_t low, std::int64_t high) const {
  const bool fits = json_->is_number_unsigned()
                        ? json_->get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max()
                        : json_->is_number_integer();
  if (!fits) throw wrong_kind("an integer");
  const auto value = json_->get<std::int64_t>();
  if (value < low || value > high) {
    throw error(Code::InvalidValue)
        .expected(fmt::format("an integer from {} to {}", low, high))
        .found(value);
  }
  return value;
}

double Value::number() const {
  if (!json_->is_number()) throw wrong_kind("a number");
  return json_->get<double>();
}

bool Value::boolean() const {
  if (!json_->is_boolean()) throw wrong_kind("true or false");
  return json_->get<bool>();
}

std::string Value::text() const {
  if (!json_->is_string()) throw wrong_kind("a string");
  return json_->get<std::string>();
}

std::vector<std::int32_t> Value::ids() const {
  std::vector<std::int32_t> ids;
  for (const Value& element : elements()) ids.push_back(element.id());
  return ids;
}

std::vector<std::string> Value::texts() const {
  std::vector<std::string> texts;
  for (const Value& element : elements()) texts.push_back(element.text());
  return texts;
}

}  // namespace waybill::conformance
