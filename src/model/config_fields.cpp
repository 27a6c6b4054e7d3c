#include "model/config_fields.h"

#include <limits>

namespace waybill {
namespace {

// Beyond any model, and small enough that products of two widths and a number of experts fit int64.
constexpr std::int32_t widest = 1 << 20;
constexpr std::int32_t most_experts = 1 << 14;

}  // namespace

std::optional<JsonValue> ConfigFields::find(std::string_view name) const {
  const std::optional<JsonValue> value = root_.find(name);
  return value && value->is(JsonKind::null) ? std::nullopt : value;
}

std::optional<JsonValue> ConfigFields::find_any(Names names) const {
  std::optional<JsonValue> first;
  for (const std::string_view name : names) {
    const std::optional<JsonValue> value = find(name);
    if (!first) {
      first = value;
    } else if (value && value->text() != first->text()) {
      throw value->error(Code::InvalidValue)
          .expected(std::string(first->key()) + " = " + first->text())
          .found(value->text());
    }
  }
  return first;
}

std::int32_t ConfigFields::integer(Names names, std::int32_t low, std::int32_t high,
                                   std::optional<std::int32_t> otherwise) const {
  if (const auto value = find_any(names)) {
    return static_cast<std::int32_t>(value->as_integer(low, high));
  }
  if (otherwise) return *otherwise;
  throw error(Code::MissingField, names.front());
}

std::int32_t ConfigFields::width(Names names) const { return integer(names, 1, widest); }

std::int32_t ConfigFields::experts(Names names) const { return integer(names, 1, most_experts); }

std::int32_t ConfigFields::topk(Names names, std::int32_t experts) const {
  const std::int32_t topk = integer(names, 1, std::numeric_limits<std::int32_t>::max());
  if (topk > experts) {
    throw find_any(names)
        ->error(Code::TopKExceedsExperts)
        .expected("at most " + std::to_string(experts))
        .found(topk);
  }
  return topk;
}

std::vector<std::int64_t> ConfigFields::integers(std::string_view name, std::int64_t low,
                                                 std::int64_t high) const {
  const auto value = find(name);
  return value ? value->as_integers(low, high) : std::vector<std::int64_t>{};
}

bool ConfigFields::flag(std::string_view name, bool otherwise) const {
  const auto value = find(name);
  bool stated = otherwise;
  if (value) faults_.attempt([&] { stated = value->as_bool(); });
  return stated;
}

float ConfigFields::number_from(float lowest, std::string_view name, float otherwise) const {
  const auto value = find(name);
  float stated = otherwise;
  if (!value) return stated;
  faults_.attempt([&] {
    const double exact = value->as_number();
    // A double beyond float has no float value to convert to.
    const bool fits = exact >= 0 && exact <= static_cast<double>(std::numeric_limits<float>::max());
    if (!fits || static_cast<float>(exact) < lowest) {
      throw value->error(Code::InvalidValue)
          .expected(lowest > 0 ? "a positive float" : "a float of at least 0")
          .found(value->text());
    }
    stated = static_cast<float>(exact);
  });
  return stated;
}

float ConfigFields::number(std::string_view name, float otherwise) const {
  return number_from(std::numeric_limits<float>::denorm_min(), name, otherwise);
}

float ConfigFields::number_from_zero(std::string_view name, float otherwise) const {
  return number_from(0.0F, name, otherwise);
}

std::string_view ConfigFields::text(std::string_view name) const {
  const auto value = find(name);
  if (!value) throw error(Code::MissingField, name);
  return value->as_string();
}

void ConfigFields::require_text(std::string_view name, std::string_view expected) const {
  const auto value = find(name);
  if (!value) return;
  faults_.attempt([&] {
    if (value->as_string() == expected) return;
    throw value->error(Code::InvalidValue).expected(expected).found(value->as_string());
  });
}

void ConfigFields::require_flag(std::string_view name, bool expected) const {
  const auto value = find(name);
  if (!value) return;
  faults_.attempt([&] {
    if (value->as_bool() == expected) return;
    throw value->error(Code::InvalidValue)
        .expected(expected ? "true" : "false")
        .found(value->text());
  });
}

Error ConfigFields::error(Code code, std::string_view field) const {
  return Error(code).at("file", root_.file()).at("field", field);
}

}  // namespace waybill
