#include <algorithm>
#include <filesystem>
#include <system_error>

#include "placement/formats/json_source.h"
#include "placement/formats/loads.h"
#include "waybill/error.h"

namespace waybill {
namespace {

std::vector<std::string> files_in(const std::string& folder) {
  std::error_code failure;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (entry.is_regular_file(failure)) files.push_back(entry.path());
  }
  if (failure) throw Error(Code::FileUnreadable).at("file", folder).found(failure.message());
  std::ranges::sort(files);  // a folder lists its files in any order
  return files;
}

LoadRows load_rows_of_folder(const std::string& folder, const FileHints& hints) {
  std::vector<std::string> archives, documents;
  for (const std::string& file : files_in(folder)) {
    const std::string name = std::filesystem::path(file).filename();
    if (name == "meta_info.json") return tensorrt_llm_loads(folder);
    if (name.ends_with(".npz")) archives.push_back(file);
    if (name.ends_with(".json") || name.ends_with(".json.gz")) documents.push_back(file);
  }
  if (!archives.empty()) return megatron_loads(archives, hints);
  if (documents.empty()) {
    throw Error(Code::UnknownFormat)
        .at("file", folder)
        .expected("meta_info.json, .npz files, or JSON files of one rank each")
        .found("none of them");
  }
  std::vector<JsonDocument> ranks;
  ranks.reserve(documents.size());
  for (const std::string& path : documents) ranks.push_back(read_json_source(path));
  if (ranks.size() == 1 && !is_sglang(ranks[0].root())) return waybill_loads(ranks[0], hints);
  for (const JsonDocument& rank : ranks) {
    if (is_sglang(rank.root())) continue;
    throw rank.root()
        .error(Code::UnknownFormat)
        .expected("only files of one system and run in a folder")
        .found("no logical_count and no records");
  }
  return sglang_loads(ranks);
}

LoadRows load_rows_of_file(const std::string& path, const FileHints& hints) {
  if (path.ends_with(".npz")) return megatron_loads(std::span(&path, 1), hints);
  const JsonDocument document = read_json_source(path);
  if (is_sglang(document.root())) return sglang_loads(std::span(&document, 1));
  return waybill_loads(document, hints);
}

}  // namespace

LoadSeries read_loads(const std::string& path, const FileHints& hints) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  return series_of(folder ? load_rows_of_folder(path, hints) : load_rows_of_file(path, hints),
                   hints);
}

}  // namespace waybill
