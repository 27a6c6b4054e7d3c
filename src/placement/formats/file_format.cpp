#include <array>
#include <utility>

#include "waybill/load_file.h"

namespace waybill {
namespace {

constexpr auto format_names = std::to_array<std::pair<FileFormat, std::string_view>>(
    {{FileFormat::waybill, "waybill"},
     {FileFormat::sglang, "sglang"},
     {FileFormat::vllm, "vllm"},
     {FileFormat::ascend, "ascend"},
     {FileFormat::tensorrt_llm, "tensorrt_llm"},
     {FileFormat::megatron, "megatron"},
     {FileFormat::eplb, "eplb"}});

}  // namespace

std::string_view name(FileFormat format) {
  for (const auto& [known, text] : format_names) {
    if (known == format) return text;
  }
  return "";
}

bool find_format(std::string_view name, FileFormat& format) {
  for (const auto& [known, text] : format_names) {
    if (text != name) continue;
    format = known;
    return true;
  }
  return false;
}

}  // namespace waybill
