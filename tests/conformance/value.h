// A value of a conformance file and where it stands, so that whatever is wrong can be pointed at.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "waybill/error.h"

namespace waybill::conformance {

using Json = nlohmann::json;

// Borrows the document and its name. Accessors throw MissingField or DocumentMalformed, with file
// and pointer, for a value that isn't there or is of another kind.
class Value {
 public:
  // A whole document.
  Value(const Json& document, const std::string& file)
      : json_(&document), document_(&document), file_(&file) {}

  Value at(std::string_view key) const;
  std::optional<Value> find(std::string_view key) const;  // nothing in what isn't an object
  std::vector<Value> elements() const;
  std::vector<std::pair<std::string, Value>> members() const;

  // InvalidValue outside [low, high].
  std::int64_t integer(std::int64_t low = 0,
                       std::int64_t high = std::numeric_limits<std::int32_t>::max()) const;
  // A rank, expert, token, …; -1 where the file says none.
  std::int32_t id() const { return static_cast<std::int32_t>(integer(-1, 1 << 30)); }
  double number() const;
  bool boolean() const;
  std::string text() const;
  std::vector<std::int32_t> ids() const;
  std::vector<std::string> texts() const;

  const Json& json() const { return *json_; }
  const std::string& file() const { return *file_; }
  std::string pointer() const;  // RFC 6901; searches the document
  Error error(Code code) const;

 private:
  Value(const Json& json, const Value& parent)
      : json_(&json), document_(parent.document_), file_(parent.file_) {}
  Error wrong_kind(std::string_view expected) const;

  const Json* json_;
  const Json* document_;
  const std::string* file_;
};

// A value on one line, shortened.
std::string shown(const Json& json);

}  // namespace waybill::conformance
