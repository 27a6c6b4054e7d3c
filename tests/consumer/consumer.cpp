// Runs every MoE layer of a checkpoint over two in-process ranks: the example of README.md.
#include <waybill/block.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

int main(int argc, char** argv) try {
  using namespace waybill;
  const Checkpoint checkpoint = Checkpoint::open(argc > 1 ? argv[1] : ".");
  const ModelConfig& model = checkpoint.config();

  // Who takes part, and which rank holds which expert: here contiguous runs, no replicas.
  const Topology topology = Topology::uniform(2);
  LocalGroup group(ProcessGroup::identity(2));
  Generation generation;
  generation.version = PlacementVersion("contiguous");
  generation.group = group.group().id();
  for (LayerId layer : model.moe_layers) {
    generation.layers[layer] = std::make_shared<const Placement>(
        Placement::contiguous(generation.version, model.experts, 2));
  }
  PlacementRegistry registry;
  registry.load(generation);
  registry.activate(generation.version);

  ExpertStore store(checkpoint, DType::f32);
  const std::vector<float> hidden(static_cast<std::size_t>(16 * model.hidden), 0.5F);  // [16, d]
  for (LayerId layer : model.moe_layers) {
    const BlockRun run =
        run_block(checkpoint, layer, BlockOptions{}, store, group, registry, topology, hidden);
    std::printf("layer %d: %lld rows, %lld of them remote\n", layer.value,
                static_cast<long long>(run.rows.routes.value),
                static_cast<long long>(run.rows.remote.value));
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
