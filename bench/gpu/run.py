"""Ceilings, then layers, plans and row movement beside their peers. Every cell's results are checked;
a wrong one makes the exit status 1. usage: run.py [--quick | --kernels] [--sizes T ...] [--json FILE]
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch

import ceilings
import peers
import triton_moe
import waybill_gpu
from protocol import SHAPES, Cell, Inputs, inexact, make_weights, time_cells

bf16 = torch.bfloat16
PLAN_TOKENS = (1, 32, 128, 512, 4096, 16384, 65536)
PLAN_LIMITS_US = {1: 6, 32: 6, 128: 6, 4096: 15, 65536: 35}
MOVED_TOKENS, MOVED_HIDDEN = (4096, 16384), 7168
rows = []
wrong_results = []


def record(bench, cell, times, unit, share_of_ceiling, limit=None):
    """Rows for --json: {candidate: value}, and {candidate: its share of the ceiling}."""
    for name, value in times.items():
        rows.append(dict(bench=bench, cell=cell, candidate=name, value=value, unit=unit,
                         ceiling_ratio=share_of_ceiling.get(name), limit=limit))


def report_wrong(cell, wrong):
    for name, text in wrong.items():
        wrong_results.append(f"{cell} {name}: {text}")
        print(f"  WRONG RESULT {wrong_results[-1]}", flush=True)


def beside_best_peer(times, show):
    """'ours  best peer  ratio  others' of {candidate: time}; "waybill" is ours."""
    others = {name: t for name, t in times.items() if not name.startswith("waybill")}
    best = min(others, key=others.get, default=None)
    ours = times.get("waybill", float("nan"))
    text = f"waybill {show(ours)}"
    if best is not None:
        text += f"  best peer {best} {show(others[best])} (peer / waybill {others[best] / ours:.2f})"
    return text + "".join(f"  {name} {show(t)}" for name, t in times.items()
                          if name not in ("waybill", best))


def print_ceilings():
    found = ceilings.measure()
    print(f"ceilings: bf16 8192^3 {found['tflops']:.0f} TFLOP/s (torch.mm, burst), copy "
          f"{found['copy']:.0f} GB/s (read + written), read {found['read']:.0f} GB/s (torch.sum), "
          f"an empty kernel {found['empty_of_8']:.2f} us in a graph of 8, {found['empty_of_1']:.2f} "
          "us in one of 1", flush=True)
    for name, unit in (("tflops", "TFLOP/s"), ("copy", "GB/s"), ("read", "GB/s"),
                       ("empty_of_8", "us"), ("empty_of_1", "us")):
        record("ceiling", name, {"torch, triton": found[name]}, unit, {})
    return found


def layer_cell(kind, w1, w2, inputs, expected):
    candidate = kind(w1, w2, inputs)

    def wrong():
        try:
            if kind in peers.OURS:
                candidate.layers.check()
        except RuntimeError as error:
            return str(error)
        return inexact(cell.written, expected)

    cell = Cell(lambda: [candidate.layer(i) for i in range(inputs.sets)], wrong)
    return cell


def layer_times(shape, tokens, w1, w2, limits, kinds):
    inputs = Inputs(shape, tokens)
    expected = [peers.reference(w1, w2, inputs, i) for i in range(inputs.sets)]
    cells = {}
    for kind in kinds:
        try:
            cells[kind.name] = layer_cell(kind, w1, w2, inputs, expected)
        except (RuntimeError, ImportError, AttributeError, TypeError, ValueError) as error:
            if kind in peers.OURS:
                raise
            print(f"  {kind.name} doesn't run: {type(error).__name__} {str(error)[:160]}")
            torch.cuda.synchronize()
    times, wrong = time_cells(cells, inputs.sets, bursts=tokens >= 4096)
    floor_ms = max(inputs.weight_bytes() / limits["read"] / 1e6,
                   inputs.flops() / limits["tflops"] / 1e9)
    print(f"{shape:10} T={tokens:<5} floor {floor_ms:8.4f} ms ({100 * floor_ms / times['waybill']:3.0f}"
          f" %)  " + beside_best_peer(times, lambda t: f"{t:.4f}"), flush=True)
    report_wrong(f"layer {shape} T={tokens}", wrong)
    record("layer", f"{shape}/{tokens}", times, "ms",
           {name: floor_ms / t for name, t in times.items()})
    for cell in cells.values():
        cell.graph.reset()


def stable_plan(ids, experts):
    """What the plan of `ids` is by definition, made on the CPU."""
    flat = ids.flatten().cpu().long()
    order = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat, minlength=experts)
    return dict(send_order=order, send_position=torch.argsort(order),
                key_offsets=torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]),
                expert_counts=counts)


def plan_cells(ids_of, experts, topk):
    """A graph of one plan for each of `ids_of`, by each candidate; the last one's is checked."""
    tokens = ids_of[0].shape[0]
    last, expected = ids_of[-1].flatten(), stable_plan(ids_of[-1], experts)
    plan, atomic = waybill_gpu.Plan(experts, topk, tokens), triton_moe.Planner(tokens, topk, experts)
    columns = plan.columns(tokens)

    def wrong_columns():
        differing = [name for name, column in columns.items()
                     if not torch.equal(column.cpu().long(), expected[name])]
        return f"{', '.join(differing)} differ" if differing else None

    def wrong_order():
        order, position = atomic.order.long(), atomic.position.long()
        sorted_ids = last[order.clamp(0, last.numel() - 1)]
        right = (torch.equal(sorted_ids.cpu().long(), last.cpu().long().sort().values)
                 and torch.equal(order[position.clamp(0, last.numel() - 1)].cpu(),
                                 torch.arange(last.numel())))
        return None if right else "no order by expert"

    def sort(ids):
        flat = ids.flatten()
        return (*torch.sort(flat, stable=True),
                torch.histc(flat, bins=experts, min=0, max=experts - 1).cumsum(0, dtype=torch.int32))

    def wrong_sort():
        _, order, ends = sort_cell.written
        right = (torch.equal(order.cpu(), expected["send_order"])
                 and torch.equal(ends.cpu().long(), expected["key_offsets"][1:]))
        return None if right else "no stable order"

    sort_cell = Cell(lambda: [sort(ids) for ids in ids_of][-1], wrong_sort)
    return {
        "waybill": Cell(lambda: [plan.build(ids) for ids in ids_of], wrong_columns,
                        list(columns.values())),
        "triton atomics (not stable)": Cell(lambda: [atomic.build(ids) for ids in ids_of],
                                            wrong_order, [atomic.order, atomic.position]),
        "torch sort+histc+cumsum": sort_cell,
    }


def plan_times(limits):
    experts, topk = 256, 8
    print("plan, E 256, k 8, microseconds a plan, in a graph of 8 plans and in one of 1:")
    for tokens in PLAN_TOKENS:
        for plans in (8, 1):
            ids_of = [torch.rand(tokens, experts, device="cuda").topk(topk, 1).indices
                      .to(torch.int32).contiguous() for _ in range(plans)]
            times, wrong = time_cells(plan_cells(ids_of, experts, topk), inner=plans)
            times = {name: 1e3 * t for name, t in times.items()}
            empty = limits[f"empty_of_{plans}"]
            limit = PLAN_LIMITS_US.get(tokens)
            print(f"  T={tokens:<6} of {plans}  empty kernel {empty:.2f}  "
                  + (f"limit {limit}  " if limit else "")
                  + beside_best_peer(times, lambda t: f"{t:.2f}"), flush=True)
            report_wrong(f"plan T={tokens} of {plans}", wrong)
            record("plan", f"{tokens} of {plans}", times, "us",
                   {name: empty / t for name, t in times.items()}, limit)


def combined(rows_of, position, gates):
    tokens, topk = gates.shape
    taken = rows_of[position.long()].view(tokens, topk, -1)
    return torch.einsum("tkd,tk->td", taken.float(), gates)


def row_movement(limits):
    hidden, topk = MOVED_HIDDEN, 8
    print(f"permute and combine, d {hidden}, k 8, bf16, GB/s of ideal bytes (share of the copy rate):")
    for tokens in MOVED_TOKENS:
        ids = torch.rand(tokens, 256, device="cuda").topk(topk, 1).indices.to(torch.int32)
        ids = ids.contiguous()
        x = torch.randn(tokens, hidden, device="cuda").to(bf16)
        gates = torch.softmax(torch.randn(tokens, topk, device="cuda"), 1).contiguous()
        expert_rows = torch.randn(tokens * topk, hidden, device="cuda").to(bf16)
        plan, atomic = waybill_gpu.Plan(256, topk, tokens), triton_moe.Planner(tokens, topk, 256)
        plan.build(ids)
        atomic.build(ids)
        token = torch.argsort(ids.flatten(), stable=True) // topk
        position = plan.columns(tokens)["send_position"]
        sent = {name: torch.empty_like(expert_rows) for name in ("waybill", "torch index_select")}
        home = {name: torch.empty_like(x) for name in ("waybill", "triton")}

        def wrong_rows(name):
            right = torch.equal(sent[name].view(torch.int16), x[token].view(torch.int16))
            return None if right else "rows differ from the sorted tokens'"

        def wrong_sums(name, its_position):
            return inexact([home[name]], [combined(expert_rows, its_position, gates)])

        cases = {
            "permute": {
                "waybill": Cell(lambda: plan.permute(x, sent["waybill"]),
                                lambda: wrong_rows("waybill"), [sent["waybill"]]),
                "torch index_select": Cell(
                    lambda: torch.index_select(x, 0, token, out=sent["torch index_select"]),
                    lambda: wrong_rows("torch index_select"), [sent["torch index_select"]])},
            "combine": {
                "waybill": Cell(lambda: plan.combine(expert_rows, gates, home["waybill"]),
                                lambda: wrong_sums("waybill", position), [home["waybill"]]),
                "triton": Cell(
                    lambda: triton_moe.combine(expert_rows, atomic.position, gates, home["triton"]),
                    lambda: wrong_sums("triton", atomic.position), [home["triton"]])},
        }
        moved = (tokens + tokens * topk) * hidden * 2
        for case, cells in cases.items():
            times, wrong = time_cells(cells)
            shares = {name: moved / t / 1e6 / limits["copy"] for name, t in times.items()}
            print(f"  {case} T={tokens:<6} " + beside_best_peer(times, lambda t: (
                f"{moved / t / 1e6:.0f} ({100 * moved / t / 1e6 / limits['copy']:.0f} %)")),
                flush=True)
            report_wrong(f"{case} T={tokens}", wrong)
            record(case, str(tokens), {name: moved / t / 1e6 for name, t in times.items()}, "GB/s",
                   shares)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true", help="two shapes and four sizes")
    options.add_argument("--sizes", type=int, nargs="+", help="tokens of the layers")
    options.add_argument("--json", help="also write rows here")
    options.add_argument("--kernels", action="store_true",
                         help="layers alone, with each of our product kernels too")
    chosen = options.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    limits = print_ceilings()
    if not chosen.kernels:
        plan_times(limits)
        row_movement(limits)
    kinds = (*peers.OURS, peers.Triton) if chosen.kernels else (peers.Waybill, *peers.OTHERS)
    shapes = ("qwen3_30b", "mixtral") if chosen.quick else tuple(SHAPES)
    sizes = chosen.sizes or ((1, 32, 512, 4096) if chosen.quick else (1, 8, 32, 128, 512, 4096))
    print("layers from hidden + top-k to output, milliseconds:")
    for shape in shapes:
        w1, w2 = make_weights(shape)
        for tokens in sizes:
            layer_times(shape, tokens, w1, w2, limits, kinds)
        del w1, w2
        torch.cuda.empty_cache()
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    print(f"{len(rows)} figures, {len(wrong_results)} wrong results")
    sys.exit(1 if wrong_results else 0)


if __name__ == "__main__":
    main()
