#include "conformance/fixture_set.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "io/json_document.h"
#include "io/text_file.h"

namespace waybill::conformance {
namespace {

constexpr std::size_t largest_file = std::size_t{64} << 20U;

std::vector<std::filesystem::path> json_files(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().extension() == ".json") paths.push_back(entry->path());
  }
  if (failure || paths.empty()) {
    throw Error(Code::FileUnreadable)
        .at("folder", folder)
        .expected("a folder with conformance files")
        .found(failure ? failure.message() : "no *.json in it");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

FixtureSet FixtureSet::read(const std::string& folder) {
  FixtureSet set;
  for (const std::filesystem::path& path : json_files(folder)) {
    set.add(path.filename().string(), parse(read_text_file(path.string(), largest_file), path));
  }
  return set;
}

Json FixtureSet::parse(std::string_view text, const std::string& file) {
  // Refuses what the second parser would take: duplicate keys, endless nesting.
  JsonDocument::parse(text, file);
  return Json::parse(text);
}

std::string FixtureSet::kind(const Json& document) {
  constexpr std::string_view prefix = "moe-conformance/", suffix = "/1";
  const auto schema = document.is_object() ? document.find("schema") : document.end();
  if (schema == document.end() || !schema->is_string()) return {};
  const auto text = schema->get<std::string>();
  if (!text.starts_with(prefix) || !text.ends_with(suffix)) return {};
  if (text.size() < prefix.size() + suffix.size()) return {};
  return text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
}

std::optional<Value> FixtureSet::find(std::string_view wanted) const {
  for (const auto& [file, document] : files_) {
    if (kind(document) == wanted) return Value(document, file);
  }
  return std::nullopt;
}

}  // namespace waybill::conformance
