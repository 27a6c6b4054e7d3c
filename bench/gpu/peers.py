"""Whole MoE layers of PyTorch, transformers and Triton behind one call: layer(set) -> [T, hidden],
every set's output in memory of its own."""
import torch
import torch.nn.functional as F

import triton_moe
import waybill_gpu


class Waybill:
    name = "waybill"
    kernel = "chosen"

    def __init__(self, w1, w2, inputs):
        self.inputs = inputs
        self.layers = waybill_gpu.Layer(w1, w2, inputs.topk, inputs.tokens, self.kernel)
        self.outputs = [torch.empty_like(hidden) for hidden in inputs.hidden]

    def layer(self, i):
        x = self.inputs
        self.layers.forward(x.ids[i], x.gates[i], x.hidden[i], self.outputs[i])
        return self.outputs[i]


class WaybillPortable(Waybill):
    name = "waybill_portable"
    kernel = "portable"


class WaybillNarrow(Waybill):
    name = "waybill_narrow"
    kernel = "hopper_narrow"


class WaybillWide(Waybill):
    name = "waybill_wide"
    kernel = "hopper_wide"


class TorchGrouped:
    """Stable sort, torch._grouped_mm twice, gather and weighted sum."""
    name = "torch_grouped_mm"

    def __init__(self, w1, w2, inputs):
        self.w1, self.w2, self.inputs = w1.transpose(1, 2), w2.transpose(1, 2), inputs

    def layer(self, i):
        x = self.inputs
        flat = x.ids[i].flatten()
        order = torch.argsort(flat, stable=True)
        ends = torch.histc(flat, bins=x.experts, min=0, max=x.experts - 1).cumsum(
            0, dtype=torch.int32)
        h = torch._grouped_mm(x.hidden[i].index_select(0, order // x.topk), self.w1, offs=ends)
        a = F.silu(h[:, :x.ff]) * h[:, x.ff:]
        rows = torch.empty(x.tokens * x.topk, x.hidden_size, device="cuda", dtype=torch.bfloat16)
        rows.index_copy_(0, order, torch._grouped_mm(a, self.w2, offs=ends))
        return torch.bmm(x.gates[i].to(torch.bfloat16).unsqueeze(1),
                         rows.view(x.tokens, x.topk, x.hidden_size)).squeeze(1)


class Transformers:
    """transformers' Qwen3MoeExperts with its grouped_mm experts implementation."""
    name = "transformers_grouped_mm"

    def __init__(self, w1, w2, inputs):
        from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig
        from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts
        config = Qwen3MoeConfig(
            hidden_size=inputs.hidden_size, moe_intermediate_size=inputs.ff,
            num_experts=inputs.experts, num_experts_per_tok=inputs.topk, hidden_act="silu")
        config._experts_implementation = "grouped_mm"
        config._experts_implementation_internal = "grouped_mm"
        with torch.device("meta"):
            module = Qwen3MoeExperts(config)
        module.gate_up_proj = torch.nn.Parameter(w1, requires_grad=False)
        module.down_proj = torch.nn.Parameter(w2, requires_grad=False)
        self.module, self.inputs = module.eval(), inputs
        self.ids = [ids.long() for ids in inputs.ids]
        self.gates = [gates.to(torch.bfloat16) for gates in inputs.gates]

    def layer(self, i):
        with torch.no_grad():
            return self.module(self.inputs.hidden[i], self.ids[i], self.gates[i])


class Triton:
    """Count, offsets, fused gate-up with gather, down and combine as Triton kernels; the better of
    the tile shapes in triton_moe.TILES for this case."""
    name = "triton_fused"

    def __init__(self, w1, w2, inputs):
        self.moe = triton_moe.FusedMoe(w1, w2, inputs)

    def layer(self, i):
        return self.moe.layer(i)


OURS = (Waybill, WaybillPortable, WaybillNarrow, WaybillWide)
OTHERS = (TorchGrouped, Transformers, Triton)


def reference(w1, w2, inputs, i):
    """The layer in float32, expert by expert."""
    x = inputs
    output = torch.zeros(x.tokens, x.hidden_size, device="cuda")
    rows = x.hidden[i].float()
    for e in x.ids[i].unique().tolist():
        token, slot = torch.where(x.ids[i] == e)
        h = rows[token] @ w1[e].float().t()
        y = (F.silu(h[:, :x.ff]) * h[:, x.ff:]) @ w2[e].float().t()
        output.index_add_(0, token, y * x.gates[i][token, slot, None])
    return output
