// Names and layouts of tensors that several families share.
#pragma once

#include <vector>

#include "model/family.h"

namespace waybill {

// "experts.{expert}.gate_proj.weight", up_proj and down_proj, each [out, in].
std::vector<ExpertTensor> separate_experts();
// The same as w1, w3 and w2: the names of Mixtral's release.
std::vector<ExpertTensor> numbered_experts();
// "experts.gate_up_proj" [E, 2·ff, d] and "experts.down_proj" [E, d, ff]: how Hugging Face's
// library holds the experts of most families in memory.
std::vector<ExpertTensor> stacked_experts();

// "shared_expert.gate_proj.weight", …; and under "shared_experts", several as one of joint width.
std::vector<ExpertTensor> shared_expert();
std::vector<ExpertTensor> shared_experts();

// A block as published, and as the library stores it when asked to keep its own names, where only
// the routed experts differ.
std::vector<BlockLayout> published_or_stacked(BlockLayout published);
// The same where the published block has the names of Mixtral's release, and its router may have
// others than the library's.
std::vector<BlockLayout> mixtral_or_stacked(RouterTensors published = {},
                                            RouterTensors stacked = {});

}  // namespace waybill
