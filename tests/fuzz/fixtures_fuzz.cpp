// Conformance files: one of a right set is the input, and the checks find what they find in it.
#include <array>
#include <string>
#include <utility>

#include "conformance/check.h"
#include "fuzz/target.h"

namespace waybill::fuzz {
namespace {

using conformance::FixtureSet;
using conformance::Json;
using conformance::Report;

constexpr std::array shipped{
#include "fixtures.inc"
};

FixtureSet right_set() {
  FixtureSet set;
  for (const auto& [file, text] : shipped) set.add(file, FixtureSet::parse(text, file));
  return set;
}

// A document in the place of another for as long as this lives.
class Replacement {
 public:
  Replacement(Json& place, Json document)
      : place_(place), kept_(std::exchange(place, std::move(document))) {}
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() { place_ = std::move(kept_); }

 private:
  Json& place_;
  Json kept_;
};

}  // namespace

void read(std::string_view bytes) {
  static FixtureSet set = right_set();
  const std::string file = shipped[take_kind(bytes, shipped.size())].first;
  const Replacement input(set.files().at(file), FixtureSet::parse(bytes, file));
  require(check_file(set, file).violations().size() <= Report::most);
}

}  // namespace waybill::fuzz
