// The conformance files of one folder, found by the kind that their schema names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "conformance/value.h"

namespace waybill::conformance {

class FixtureSet {
 public:
  // Reads every *.json of a folder. FileUnreadable without any; DocumentMalformed or DuplicateKey
  // for a file that isn't strict JSON.
  static FixtureSet read(const std::string& folder);
  static Json parse(std::string_view text, const std::string& file);

  void add(std::string file, Json document) { files_[std::move(file)] = std::move(document); }
  const std::map<std::string, Json>& files() const { return files_; }
  std::map<std::string, Json>& files() { return files_; }

  // "routes" of "moe-conformance/routes/1"; empty for other documents.
  static std::string kind(const Json& document);
  std::optional<Value> find(std::string_view kind) const;

 private:
  std::map<std::string, Json> files_;
};

}  // namespace waybill::conformance
