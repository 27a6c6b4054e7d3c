// JSON documents, read strictly: every fault is an Error that names the file and the field.
//   const JsonDocument document = JsonDocument::read("config.json");
//   const std::int64_t layers = document.root().at("num_hidden_layers").as_integer(1, 4096);
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/error.h"

namespace waybill {

enum class JsonKind : std::uint8_t { null, boolean, integer, number, string, array, object };

// "object", "integer", …: as errors call it.
std::string_view name(JsonKind kind);

// Bounds on what a document may cost, checked while it is read.
struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20U;   // of text; at most 4 GiB
  std::size_t values = std::size_t{16} << 20U;  // of every kind, containers included
  std::size_t depth = 64;                       // of nested arrays and objects
};

struct JsonTree;
class JsonChildren;

// One value of a document and its place in it. A handle of two words; valid while the document
// lives. Every accessor throws DocumentMalformed, naming file and field, when the value has another
// kind than the accessor wants.
class JsonValue {
 public:
  JsonValue(const JsonTree* tree, std::uint32_t node) : tree_(tree), node_(node) {}

  JsonKind kind() const;
  bool is(JsonKind wanted) const { return kind() == wanted; }

  bool as_bool() const;
  // InvalidValue when it lies outside [low, high]. Numbers with a fraction or an exponent are not
  // integers.
  std::int64_t as_integer(std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  double as_number() const;  // integers included; always finite
  std::string_view as_string() const;
  std::string_view as_label() const;  // InvalidValue when empty or longer than 256 bytes
  std::vector<std::int64_t> as_integers(
      std::int64_t low = std::numeric_limits<std::int64_t>::min(),
      std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;

  // Arrays and objects, in the order of the text.
  JsonChildren elements() const;
  JsonChildren members() const;
  std::size_t size() const;      // number of elements or members
  std::string_view key() const;  // of an object's member; empty for others

  // A member of an object, found by a linear search; walk members() when many are wanted.
  std::optional<JsonValue> find(std::string_view key) const;
  JsonValue at(std::string_view key) const;  // MissingField when absent

  const std::string& file() const;
  // "layers[3].slots[0].expert"; empty for the document itself.
  std::string path() const;
  // The value as an error shows it: shortened text, or the kind of a container.
  std::string text() const;
  // An error at this place: file and field are filled in.
  Error error(Code code) const;

 private:
  friend class JsonChildren;
  void want(JsonKind wanted) const;

  const JsonTree* tree_;
  std::uint32_t node_;
};

// The children of an array or object, for a range-based for.
class JsonChildren {
 public:
  class iterator {
   public:
    using value_type = JsonValue;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    using pointer = void;
    using reference = JsonValue;

    iterator(const JsonTree* tree, std::uint32_t node) : tree_(tree), node_(node) {}
    JsonValue operator*() const { return {tree_, node_}; }
    iterator& operator++();
    bool operator==(const iterator&) const = default;

   private:
    const JsonTree* tree_;
    std::uint32_t node_;  // 0, the root, stands for the end: no child is the root
  };

  JsonChildren(const JsonTree* tree, std::uint32_t first) : tree_(tree), first_(first) {}
  iterator begin() const { return {tree_, first_}; }
  iterator end() const { return {tree_, 0}; }

 private:
  const JsonTree* tree_;
  std::uint32_t first_;
};

class JsonDocument {
 public:
  // `file` names the source in errors. DocumentMalformed (file, line, byte) when the text doesn't
  // follow RFC 8259 or breaks a limit; DuplicateKey (file, field) when an object names a key twice.
  static JsonDocument parse(std::string_view text, std::string_view file,
                            const JsonLimits& limits = {});
  // The same for a file; FileUnreadable when it can't be read.
  static JsonDocument read(const std::string& path, const JsonLimits& limits = {});

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  const std::string& file() const;
  JsonValue root() const&;
  JsonValue root() const&& = delete;  // the value would outlive its document

 private:
  explicit JsonDocument(std::unique_ptr<const JsonTree> tree);
  std::unique_ptr<const JsonTree> tree_;
};

}  // namespace waybill
