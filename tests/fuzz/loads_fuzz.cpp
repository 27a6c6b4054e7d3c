// Load statistics of every format: what is accepted is finite, and reads back after it was written
// in our own schema.
#include <cmath>

#include "fuzz/target.h"
#include "support/temporary_folder.h"
#include "waybill/load_file.h"

namespace waybill::fuzz {
namespace {

constexpr std::string_view documents = "loads.json", archives = "loads.npz", ranks = "tensorrt_llm";

// Where the input lies for readers that take a path.
std::string place(std::string_view bytes, unsigned kind) {
  static const testing::TemporaryFolder folder;
  if (kind < 2) return folder.write(kind == 0 ? documents : archives, bytes);
  static const std::string rank_folder = [] {
    const std::string path = folder.file(ranks);
    std::filesystem::create_directory(path);
    folder.write("tensorrt_llm/meta_info.json", R"({"num_experts": 4})");
    return path;
  }();
  folder.write("tensorrt_llm/rank0.safetensors", bytes);
  return rank_folder;
}

void require_loads(const LoadSeries& series) {
  require(!series.windows.empty());
  for (const LoadWindow& window : series.windows) {
    const LoadMatrix& first = series.windows.front().load;
    require(window.load.layers().size() == first.layers().size());
    require(window.load.experts() == first.experts() && first.experts() >= 1);
    for (std::size_t i = 0; i < first.layers().size(); ++i) {
      for (const double load : window.load.by_source(i)) require(std::isfinite(load) && load >= 0);
    }
  }
}

void require_same_after_writing(const LoadSeries& series) {
  static const testing::TemporaryFolder folder;
  const std::string path = folder.file("written.json");
  write_loads(path, FileFormat::waybill, series);
  LoadSeries again;
  try {
    again = read_loads(path);
  } catch (const Error&) {
    require(false);
  }
  require(again.windows.size() == series.windows.size());
  for (std::size_t w = 0; w < series.windows.size(); ++w) {
    const LoadMatrix &read = again.windows[w].load, &written = series.windows[w].load;
    require(read.layers().size() == written.layers().size());
    for (std::size_t i = 0; i < written.layers().size(); ++i) {
      require(read.total(i) == written.total(i));
    }
  }
}

}  // namespace

void read(std::string_view bytes) {
  const unsigned kind = take_kind(bytes, 3);
  const LoadSeries series = read_loads(place(bytes, kind));
  require_loads(series);
  require_same_after_writing(series);
}

}  // namespace waybill::fuzz
