// The recorded expert loads as load matrices.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "balance/gzip_json.h"
#include "waybill/load.h"

namespace waybill::testing {

inline std::vector<LayerId> first_layers(std::size_t count) {
  std::vector<LayerId> layers;
  for (std::size_t i = 0; i < count; ++i) layers.emplace_back(static_cast<std::int32_t>(i));
  return layers;
}

// One source, layers 0, 1, …
inline LoadMatrix load_matrix(std::vector<double> load, std::int32_t experts) {
  return {first_layers(load.size() / static_cast<std::size_t>(experts)), 1, experts,
          std::move(load)};
}

// tests/data/expert_loads/`name`.json.gz.
inline LoadMatrix synthetic_load(const std::string& name) {
  const JsonDocument document = read_recorded("expert_loads/" + name + ".json.gz");
  return load_matrix(flat<double>(document.root().at("load")),
                     static_cast<std::int32_t>(document.root().at("experts").as_integer()));
}

struct NamedLoad {
  std::string name;
  LoadMatrix load;
};
inline std::vector<NamedLoad> gpt_oss_loads() {
  const JsonDocument document = read_recorded("expert_loads/gpt_oss_20b_by_dataset.json");
  const auto experts = static_cast<std::int32_t>(document.root().at("num_experts").as_integer());
  std::vector<NamedLoad> loads;
  for (JsonValue set : document.root().at("sets").elements()) {
    loads.push_back({std::string(set.at("set").as_string()),
                     load_matrix(flat<double>(set.at("load")), experts)});
  }
  return loads;
}

}  // namespace waybill::testing
