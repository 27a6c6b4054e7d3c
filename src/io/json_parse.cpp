// Text to JsonTree: nlohmann-json tokenises, this handler builds and enforces what it doesn't.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/json_document.h"
#include "io/json_tree.h"
#include "io/text_file.h"

namespace waybill {
namespace {

// The parser's message without its own prefix, in printable ASCII: it may quote the bytes at fault.
std::string printable(std::string_view message) {
  constexpr std::size_t longest = 200;
  if (const auto prefix = message.find("] "); prefix != std::string_view::npos) {
    message.remove_prefix(prefix + 2);
  }
  std::string shown(message.substr(0, longest));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(JsonTree& tree, std::string_view source, const JsonLimits& limits)
      : tree_(tree), source_(source), limits_(limits) {}

  bool null() override {
    add(JsonKind::null);
    return true;
  }
  bool boolean(bool value) override {
    add(JsonKind::boolean).boolean = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    add(JsonKind::integer).integer = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    // Above int64 it stays a number, and as_integer() finds it out of range.
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return number_float(static_cast<double>(value), {});
    }
    return number_integer(static_cast<number_integer_t>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    add(JsonKind::number).number = value;
    return true;
  }
  bool string(string_t& value) override {
    const JsonTree::Text text = store(value);
    add(JsonKind::string).string = text;
    return true;
  }
  bool binary(binary_t& /*value*/) override { return false; }  // never in JSON text
  bool key(string_t& value) override {
    key_ = store(value);
    return true;
  }
  bool start_object(std::size_t /*size*/) override { return open(JsonKind::object); }
  bool start_array(std::size_t /*size*/) override { return open(JsonKind::array); }
  bool end_object() override {
    refuse_duplicates(open_.back().node);
    return close();
  }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& cause) override {
    throw malformed(position).found(printable(cause.what()));
  }

  // The parser takes a zero byte for the end of the text; what follows it must not go unread.
  void refuse_zero_bytes() const {
    if (const auto at = source_.find('\0'); at != std::string_view::npos) {
      throw malformed(at + 1).found("a zero byte");
    }
  }

 private:
  struct Open {
    std::uint32_t node = 0;
    std::uint32_t last_child = 0;
  };

  // `position` counts the bytes read, the one at fault included.
  Error malformed(std::size_t position) const {
    const std::string_view before = source_.substr(0, position);
    return Error(Code::DocumentMalformed)
        .at("file", tree_.file)
        .at("line", 1 + std::count(before.begin(), before.end(), '\n'))
        .at("byte", position);
  }

  JsonTree::Text store(const std::string& value) {
    const JsonTree::Text text{static_cast<std::uint32_t>(tree_.text.size()),
                              static_cast<std::uint32_t>(value.size())};
    tree_.text += value;
    return text;
  }

  JsonTree::Node& add(JsonKind kind) {
    if (tree_.nodes.size() >= limits_.values) {
      throw beyond(fmt::format("at most {} values", limits_.values));
    }
    const auto index = static_cast<std::uint32_t>(tree_.nodes.size());
    JsonTree::Node& node = tree_.nodes.emplace_back();
    node.kind = kind;
    node.key = std::exchange(key_, {});
    if (!open_.empty()) {
      auto& [parent, last_child] = open_.back();
      node.parent = parent;
      (last_child == 0 ? tree_.nodes[parent].first : tree_.nodes[last_child].next) = index;
      ++tree_.nodes[parent].count;
      last_child = index;
    }
    return node;
  }

  bool open(JsonKind kind) {
    if (open_.size() >= limits_.depth) {
      throw beyond(fmt::format("at most {} nested containers", limits_.depth));
    }
    const auto index = static_cast<std::uint32_t>(tree_.nodes.size());
    add(kind);
    open_.push_back({index, 0});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  void refuse_duplicates(std::uint32_t object) {
    members_.clear();
    for (std::uint32_t i = tree_.nodes[object].first; i != 0; i = tree_.nodes[i].next) {
      members_.emplace_back(tree_.view(tree_.nodes[i].key), i);
    }
    std::sort(members_.begin(), members_.end());
    const auto twice =
        std::adjacent_find(members_.begin(), members_.end(),
                           [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twice != members_.end()) {
      throw JsonValue(&tree_, twice->second).error(Code::DuplicateKey).found("the key twice");
    }
  }

  Error beyond(const std::string& limit) const {
    Error error(Code::DocumentMalformed);
    error.at("file", tree_.file).expected(limit).found("more");
    if (!open_.empty()) error.at("field", JsonValue(&tree_, open_.back().node).path());
    return error;
  }

  JsonTree& tree_;
  std::string_view source_;
  const JsonLimits& limits_;
  std::vector<Open> open_;
  JsonTree::Text key_;  // of the value that comes next
  std::vector<std::pair<std::string_view, std::uint32_t>> members_;
};

}  // namespace

JsonDocument JsonDocument::parse(std::string_view text, std::string_view file,
                                 const JsonLimits& limits) {
  auto tree = std::make_unique<JsonTree>();
  tree->file = file;
  const std::size_t most =
      std::min<std::size_t>(limits.bytes, std::numeric_limits<std::uint32_t>::max());
  if (text.size() > most) {
    throw Error(Code::DocumentMalformed)
        .at("file", file)
        .expected(fmt::format("at most {} bytes", most))
        .found(text.size());
  }
  TreeBuilder builder(*tree, text, limits);
  builder.refuse_zero_bytes();
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return JsonDocument(std::move(tree));
}

JsonDocument JsonDocument::read(const std::string& path, const JsonLimits& limits) {
  return parse(read_text_file(path, limits.bytes), path, limits);
}

}  // namespace waybill
