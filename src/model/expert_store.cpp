#include <map>
#include <mutex>
#include <utility>

#include "waybill/block.h"
#include "waybill/error.h"

namespace waybill {
namespace {

constexpr ExpertId kShared{-1};

}  // namespace

struct ExpertStore::State {
  // Made once, by whichever rank asks first; others wait for that bundle alone.
  struct Entry {
    std::once_flag once;
    std::shared_ptr<const ExpertBundle> bundle;
  };

  const Checkpoint& checkpoint;
  const DType dtype;
  std::mutex mutex;  // of the map; an entry's bundle is guarded by its once flag
  std::map<std::pair<LayerId, ExpertId>, std::shared_ptr<Entry>> entries;
  std::size_t packed_since_drop = 0;  // bytes

  // The file's pages aren't needed again; keeping them would hold the weights twice. In portions,
  // since dropping walks all tensors of the layer.
  void give_pages_back(LayerId layer, std::size_t packed) {
    constexpr std::size_t portion = std::size_t{32} << 20U;
    {
      std::lock_guard lock(mutex);
      packed_since_drop += packed;
      if (packed_since_drop < portion) return;
      packed_since_drop = 0;
    }
    checkpoint.drop_pages(layer);
  }

  std::shared_ptr<const ExpertBundle> get(LayerId layer, ExpertId expert,
                                          const ExpertWeights& weights) {
    std::shared_ptr<Entry> entry;
    {
      std::lock_guard lock(mutex);
      auto& place = entries[{layer, expert}];
      if (place == nullptr) place = std::make_shared<Entry>();
      entry = place;
    }
    std::call_once(entry->once, [&] {
      entry->bundle = ExpertBundle::pack(weights, dtype);
      give_pages_back(layer, entry->bundle->resident_bytes());
    });
    return entry->bundle;
  }
};

ExpertStore::ExpertStore(const Checkpoint& checkpoint, DType dtype)
    : state_(new State{checkpoint, dtype, {}, {}}) {
  if (dtype != DType::f32 && dtype != DType::bf16) {
    throw Error(Code::DtypeMismatch).at("field", "dtype").expected("f32 or bf16").found(dtype);
  }
}
ExpertStore::~ExpertStore() = default;

std::shared_ptr<const ExpertBundle> ExpertStore::get(LayerId layer, ExpertId expert) {
  return state_->get(layer, expert, state_->checkpoint.expert(layer, expert));
}

std::shared_ptr<const ExpertBundle> ExpertStore::shared(LayerId layer) {
  const std::optional<ExpertWeights> weights = state_->checkpoint.shared_expert(layer);
  return weights ? state_->get(layer, kShared, *weights) : nullptr;
}

void ExpertStore::drop(LayerId layer) {
  std::lock_guard lock(state_->mutex);
  std::erase_if(state_->entries, [&](const auto& entry) { return entry.first.first == layer; });
}

}  // namespace waybill
