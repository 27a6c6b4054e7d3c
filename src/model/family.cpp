#include "model/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "model/families/families.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::array registered{
#define WAYBILL_FAMILY(name) &families::name,
#include "model/families/list.def"
#undef WAYBILL_FAMILY
};

std::string with_number(std::string_view text, std::string_view mark, std::int32_t number) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return std::string(text);
  return fmt::format("{}{}{}", text.substr(0, at), number, text.substr(at + mark.size()));
}

}  // namespace

bool ExpertTensor::holds_all_experts() const {
  return std::find(axes.begin(), axes.end(), Axis::expert) != axes.end();
}

std::string block_path(std::string_view path, LayerId layer) {
  return with_number(path, "{layer}", layer.value);
}

std::string expert_name(std::string_view name, ExpertId expert) {
  return with_number(name, "{expert}", expert.value);
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  names.reserve(registered.size());
  for (const auto& family : registered) names.push_back(family().name);
  std::sort(names.begin(), names.end());
  return names;
}

Family find_family(std::string_view name, std::string_view config_file) {
  for (const auto& family : registered) {
    if (Family found = family(); found.name == name) return found;
  }
  throw Error(Code::UnknownFamily)
      .at("file", config_file)
      .at("field", "model_type")
      .expected(fmt::format("one of {}", fmt::join(family_names(), ", ")))
      .found(name);
}

}  // namespace waybill
