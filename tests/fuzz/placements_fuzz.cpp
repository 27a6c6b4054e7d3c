// Placements of every format: in what is accepted, every expert of every layer has a slot; and it
// reads back as the same text after it was written in our own schema.
#include <algorithm>

#include "fuzz/target.h"
#include "support/temporary_folder.h"
#include "waybill/error.h"
#include "waybill/placement_file.h"

namespace waybill::fuzz {
namespace {

void require_placed(const PlacementTable& table) {
  require(table.experts >= 1 && !table.slots.empty());
  require(table.every_layer || table.layers.size() == table.slots.size());
  for (const SlotLists& lists : table.slots) {
    require(std::cmp_equal(lists.size(), table.ranks()));
    std::vector<bool> placed(static_cast<std::size_t>(table.experts));
    for (const auto& list : lists) {
      for (const std::int32_t e : list) placed.at(static_cast<std::size_t>(e)) = true;
    }
    require(std::ranges::find(placed, false) == placed.end());
  }
}

void require_same_after_writing(const PlacementTable& table) {
  static const testing::TemporaryFolder folder;
  const std::string text = placement_text(FileFormat::waybill, table);
  try {
    const PlacementTable again = read_placement_table(folder.write("written.json", text));
    require(placement_text(FileFormat::waybill, again) == text);
  } catch (const Error&) {
    require(false);
  }
}

// What other formats can't state, they refuse.
void write_elsewhere(const PlacementTable& table) {
  for (const FileFormat format : {FileFormat::sglang, FileFormat::vllm, FileFormat::ascend,
                                  FileFormat::tensorrt_llm, FileFormat::eplb}) {
    try {
      placement_text(format, table);
    } catch (const Error&) {
    }
  }
}

}  // namespace

void read(std::string_view bytes) {
  static const testing::TemporaryFolder folder;
  const unsigned kind = take_kind(bytes, 4);
  FileHints hints;
  hints.ranks = 2;
  const PlacementTable table =
      read_placement_table(folder.write(kind < 3 ? "p.json" : "p.yaml", bytes), hints);
  require_placed(table);
  require_same_after_writing(table);
  write_elsewhere(table);
}

}  // namespace waybill::fuzz
