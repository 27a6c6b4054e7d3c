"""A fused MoE layer in Triton, as serving engines have it: an unstable plan by atomics, gate-up with
gathered rows and SwiGLU, down, weighted sum. A peer to compare with."""
import torch
import triton
import triton.language as tl

from protocol import time_calls

TILES = {  # rows, columns, depth, warps, stages
    "decode": ((16, 64, 128, 4, 4), (16, 128, 64, 4, 4)),
    "middle": ((32, 64, 64, 4, 4), (64, 128, 64, 4, 4)),
    "prefill": ((128, 128, 64, 8, 3), (64, 128, 64, 4, 4)),
}


@triton.jit
def _count(ids, counts, position, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = at < n
    expert = tl.load(ids + at, mask=live, other=0)
    tl.store(position + at, tl.atomic_add(counts + expert, 1, mask=live), mask=live)


@triton.jit
def _starts(counts, starts, E, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    n = tl.load(counts + at, mask=at < E, other=0)
    tl.store(starts + at, tl.cumsum(n, 0) - n, mask=at < E)


@triton.jit
def _place(ids, starts, position, order, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = at < n
    row = tl.load(starts + tl.load(ids + at, mask=live, other=0)) + tl.load(position + at, mask=live)
    tl.store(position + at, row, mask=live)
    tl.store(order + row, at, mask=live)


@triton.jit
def _find(counts, starts, E, tile, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    n = tl.load(counts + at, mask=at < E, other=0)
    tiles = (n + ROWS - 1) // ROWS
    through = tl.cumsum(tiles, 0)
    here = (through > tile) & (through - tiles <= tile)
    expert = tl.sum(tl.where(here, at, 0), 0)
    within = tl.sum(tl.where(here, tile - (through - tiles), 0), 0) * ROWS
    left = tl.sum(tl.where(here, n, 0), 0) - within
    first = tl.load(starts + expert) + within
    return expert, first, left


@triton.jit
def _gate_up(x, w, out, order, counts, starts, E, D, FF, K: tl.constexpr, ROWS: tl.constexpr,
             COLUMNS: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    expert, first, left = _find(counts, starts, E, tl.program_id(0), ROWS, BLOCK)
    if left <= 0:
        return
    r = tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    d = tl.arange(0, DEPTH)
    token = tl.load(order + first + r, mask=r < left, other=0) // K
    a = x + token[:, None].to(tl.int64) * D + d[None, :]
    b = w + expert.to(tl.int64) * 2 * FF * D + c[None, :].to(tl.int64) * D + d[:, None]
    gate = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    up = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for k in range(0, D, DEPTH):
        rows = tl.load(a + k, mask=(r[:, None] < left) & (d[None, :] + k < D), other=0.0)
        live = (c[None, :] < FF) & (d[:, None] + k < D)
        gate = tl.dot(rows, tl.load(b + k, mask=live, other=0.0), gate)
        up = tl.dot(rows, tl.load(b + FF * D + k, mask=live, other=0.0), up)
    h = gate / (1 + tl.exp(-gate)) * up
    to = out + (first + r)[:, None].to(tl.int64) * FF + c[None, :]
    tl.store(to, h.to(tl.bfloat16), mask=(r[:, None] < left) & (c[None, :] < FF))


@triton.jit
def _down(h, w, out, counts, starts, E, D, FF, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
          DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    expert, first, left = _find(counts, starts, E, tl.program_id(0), ROWS, BLOCK)
    if left <= 0:
        return
    r = tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    f = tl.arange(0, DEPTH)
    a = h + (first + r)[:, None].to(tl.int64) * FF + f[None, :]
    b = w + expert.to(tl.int64) * D * FF + c[None, :].to(tl.int64) * FF + f[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for k in range(0, FF, DEPTH):
        rows = tl.load(a + k, mask=(r[:, None] < left) & (f[None, :] + k < FF), other=0.0)
        weights = tl.load(b + k, mask=(c[None, :] < D) & (f[:, None] + k < FF), other=0.0)
        total = tl.dot(rows, weights, total)
    to = out + (first + r)[:, None].to(tl.int64) * D + c[None, :]
    tl.store(to, total.to(tl.bfloat16), mask=(r[:, None] < left) & (c[None, :] < D))


@triton.jit
def _combine(rows, position, gates, out, D, K: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for j in tl.static_range(K):
        row = tl.load(position + token * K + j).to(tl.int64)
        total += tl.load(rows + row * D + c, mask=c < D, other=0.0).to(tl.float32) * tl.load(
            gates + token * K + j)
    tl.store(out + token.to(tl.int64) * D + c, total.to(tl.bfloat16), mask=c < D)


class Planner:
    """Counts, starts and order of one routing; not stable."""

    def __init__(self, tokens, topk, experts):
        new = lambda n: torch.zeros(n, device="cuda", dtype=torch.int32)
        self.routes, self.experts = tokens * topk, experts
        self.block = max(16, triton.next_power_of_2(experts))
        self.counts, self.starts = new(experts), new(experts)
        self.position, self.order = new(self.routes), new(self.routes)

    def build(self, ids):
        grid = (triton.cdiv(self.routes, 256),)
        self.counts.zero_()
        _count[grid](ids, self.counts, self.position, self.routes, BLOCK=256)
        _starts[(1,)](self.counts, self.starts, self.experts, BLOCK=self.block)
        _place[grid](ids, self.starts, self.position, self.order, self.routes, BLOCK=256)


def combine(rows, position, gates, output):
    tokens, topk = gates.shape
    hidden = output.shape[1]
    _combine[(tokens, triton.cdiv(hidden, 1024))](
        rows, position, gates, output, hidden, K=topk, BLOCK=1024, num_warps=4)


class FusedMoe:
    def __init__(self, w1, w2, inputs):
        x = self.inputs = inputs
        self.w1, self.w2 = w1, w2
        rows = x.tokens * x.topk
        self.plan = Planner(x.tokens, x.topk, x.experts)
        new = lambda *shape: torch.empty(*shape, device="cuda", dtype=torch.bfloat16)
        self.h, self.rows = new(rows, x.ff), new(rows, x.hidden_size)
        self.outputs = [new(x.tokens, x.hidden_size) for _ in range(x.sets)]
        per_expert = rows / x.experts
        kind = "decode" if per_expert <= 8 else "middle" if per_expert <= 48 else "prefill"
        times = {}
        for self.tile in TILES[kind]:
            times[self.tile] = time_calls(
                {"": lambda: [self.layer(i) for i in range(x.sets)]}, target_ms=10, groups=3)[""]
        self.tile = min(times, key=times.get)

    def layer(self, i):
        x, plan = self.inputs, self.plan
        rows, columns, depth, warps, stages = self.tile
        routes = plan.routes
        tiles = min(routes, routes // rows + x.experts)
        options = dict(ROWS=rows, COLUMNS=columns, DEPTH=depth, BLOCK=plan.block, num_warps=warps,
                       num_stages=stages)
        plan.build(x.ids[i])
        _gate_up[(tiles, triton.cdiv(x.ff, columns))](
            x.hidden[i], self.w1, self.h, plan.order, plan.counts, plan.starts, x.experts,
            x.hidden_size, x.ff, K=x.topk, **options)
        _down[(tiles, triton.cdiv(x.hidden_size, columns))](
            self.h, self.w2, self.rows, plan.counts, plan.starts, x.experts, x.hidden_size, x.ff,
            **options)
        combine(self.rows, plan.position, x.gates[i], self.outputs[i])
        return self.outputs[i]
