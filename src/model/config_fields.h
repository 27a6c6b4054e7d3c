// Typed access to the fields of a model's config.json. A field that is null counts as absent, and a
// field may have several names: the first one is named when it is missing, and two that disagree
// are an error. A fault of a value that nothing else is derived from is reported, and the default
// stands for it; other faults are thrown.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/faults.h"
#include "io/json_document.h"
#include "waybill/error.h"

namespace waybill {

class ConfigFields {
 public:
  // The names of one field, at least one; they live as long as the call that they are given to.
  struct Names : std::span<const std::string_view> {
    Names(std::initializer_list<std::string_view> names) : span(names.begin(), names.size()) {}
    Names(const std::vector<std::string_view>& names) : span(names) {}
  };

  ConfigFields(JsonValue root, Faults& faults) : root_(root), faults_(faults) {}

  // MissingField, or InvalidValue outside [low, high]; `otherwise` stands for an absent field.
  std::int32_t integer(Names names, std::int32_t low, std::int32_t high,
                       std::optional<std::int32_t> otherwise = std::nullopt) const;
  // The same for a width such as hidden_size, and for a number of experts.
  std::int32_t width(Names names) const;
  std::int32_t experts(Names names) const;
  // TopKExceedsExperts above `experts`.
  std::int32_t topk(Names names, std::int32_t experts) const;
  // Empty when absent.
  std::vector<std::int64_t> integers(std::string_view name, std::int64_t low,
                                     std::int64_t high) const;

  bool flag(std::string_view name, bool otherwise) const;
  float number(std::string_view name, float otherwise) const;            // positive and finite
  float number_from_zero(std::string_view name, float otherwise) const;  // or zero
  std::string_view text(std::string_view name) const;                    // MissingField
  // InvalidValue when the field is present and says something else than `expected`.
  void require_text(std::string_view name, std::string_view expected) const;
  void require_flag(std::string_view name, bool expected) const;

  std::optional<JsonValue> find(std::string_view name) const;
  // An error at the field, whether or not it is present.
  Error error(Code code, std::string_view field) const;

 private:
  std::optional<JsonValue> find_any(Names names) const;
  float number_from(float lowest, std::string_view name, float otherwise) const;
  JsonValue root_;
  Faults& faults_;
};

}  // namespace waybill
