"""Records tiny checkpoints: `record.py OUT [NAME...]`. Needs torch and transformers 5.17."""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

TOKENS = 24
VOCABULARY = 32

COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
DEEPSEEK_ATTENTION = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
SHARED = {"intermediate_size": 80, "moe_intermediate_size": 40, "num_hidden_layers": 3,
          "first_k_dense_replace": 1, "n_routed_experts": 12}
# Name of the folder: (family, configuration).
CHECKPOINTS = {
    "deepseek_v2": ("deepseek_v2", {
        **DEEPSEEK_ATTENTION, **SHARED, "q_lora_rank": 24, "num_experts_per_tok": 3,
        "n_shared_experts": 2, "routed_scaling_factor": 1.6, "norm_topk_prob": True,
        "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2}),
    "deepseek_v2_greedy": ("deepseek_v2", {
        **DEEPSEEK_ATTENTION, **SHARED, "q_lora_rank": None, "num_experts_per_tok": 4,
        "num_hidden_layers": 2, "moe_intermediate_size": 32, "n_routed_experts": 10,
        "n_shared_experts": 1, "routed_scaling_factor": 1.0, "topk_method": "greedy"}),
    "dots1": ("dots1", {
        **SHARED, "head_dim": 12, "num_experts_per_tok": 4, "n_shared_experts": 2,
        "routed_scaling_factor": 2.5, "norm_topk_prob": False, "n_group": 2, "topk_group": 1}),
    "ernie4_5_moe": ("ernie4_5_moe", {
        "head_dim": 12, "intermediate_size": 80, "moe_intermediate_size": 40,
        "num_hidden_layers": 4, "moe_num_experts": 12, "moe_k": 4, "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1, "moe_layer_end_index": 3, "moe_layer_interval": 2}),
    "glm4_moe": ("glm4_moe", {
        **SHARED, "head_dim": 12, "num_experts_per_tok": 4, "n_shared_experts": 1,
        "routed_scaling_factor": 1.5, "norm_topk_prob": True, "n_group": 3, "topk_group": 2}),
    "minimax_m2": ("minimax_m2", {
        "head_dim": 12, "rotary_dim": 6, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_local_experts": 12, "num_experts_per_tok": 4}),
    "phimoe": ("phimoe", {
        "intermediate_size": 56, "num_hidden_layers": 2, "num_local_experts": 8,
        "num_experts_per_tok": 2, "router_jitter_noise": 0.15,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
}


def random_value(name, shape, generator):
    value = torch.randn(shape, generator=generator)
    if "e_score_correction_bias" in name:
        return value * (0.05 if "moe_statics" in name else 0.3)
    if "norm" in name:
        return 1 + 0.1 * value
    if len(shape) < 2:
        return 0.1 * value
    # Routers get wider logits, so that no choice is close.
    return value * shape[-1] ** -0.5 * (1.5 if name.endswith(("gate.weight", "router.weight")) else 1)


def make_model(family, configuration):
    config = transformers.AutoConfig.for_model(family, **{**COMMON, **configuration})
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager")
    model.set_experts_implementation("eager")
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point() and "inv_freq" not in name:
                tensor.copy_(random_value(name, tensor.shape, generator).bfloat16().float())
    return model.eval()


def watch(name, block, recorded):
    """Hooks that put what enters and leaves a block, its router and its experts into `recorded`."""

    def put(what, value):
        recorded[f"{name}.{what}"] = value.detach().clone().contiguous()

    def put_all(what, values):
        for i, value in enumerate(values if isinstance(values, tuple) else (values,)):
            put(f"{what}{i}", value)

    router = "gate" if hasattr(block, "gate") else "router"
    block.register_forward_pre_hook(lambda _, inputs: put("block_in", inputs[0]))
    block.register_forward_hook(lambda _, inputs, output: put("block_out", output))
    getattr(block, router).register_forward_hook(
        lambda _, inputs, output: put_all(f"{router}_out", output))
    block.experts.register_forward_pre_hook(lambda _, inputs: put_all("experts_in.arg", inputs))
    block.experts.register_forward_hook(lambda _, inputs, output: put("experts_out", output))


def record(name, folder):
    family, configuration = CHECKPOINTS[name]
    model = make_model(family, configuration)
    recorded = {}
    blocks = [(path, module) for path, module in model.named_modules() if hasattr(module, "experts")]
    for path, module in blocks:
        watch(path, module, recorded)
    ids = torch.randint(3, VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        model(ids)
    model.bfloat16().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    about = {"family": family, "transformers": transformers.__version__}
    save_file(recorded, folder / "golden.safetensors",
              {**about, "torch": torch.__version__, "compute": "float32, eager experts"})
    (folder / "golden.json").write_text(json.dumps({
        **about,
        "blocks": [{"block": path, "block_class": type(module).__name__,
                    "experts_class": type(module.experts).__name__} for path, module in blocks],
        "tensors": {key: [str(value.dtype).removeprefix("torch."), list(value.shape)]
                    for key, value in recorded.items()},
    }, indent=1))


def main():
    out, *names = sys.argv[1:]
    for name in names or CHECKPOINTS:
        record(name, pathlib.Path(out) / name)


if __name__ == "__main__":
    main()
