"""Ceilings, then layers, plans and row movement beside their peers. usage: run.py [--quick | --kernels] [--json FILE]"""
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
from protocol import (SHAPES, Inputs, capture, make_weights, relative_error, time_bursts,
                      time_graph)

bf16 = torch.bfloat16
results = []


def record(bench, cell, value, unit, peer="waybill", ceiling_ratio=None):
    results.append(dict(bench=bench, cell=cell, value=value, unit=unit, peer=peer,
                        ceiling_ratio=ceiling_ratio))


def print_ceilings():
    found = ceilings.measure()
    print(f"ceilings: bf16 8192^3 {found['tflops']:.0f} TFLOP/s (torch.mm, burst), copy "
          f"{found['copy']:.0f} GB/s (read + written), read {found['read']:.0f} GB/s (torch.sum)")
    for name, value in found.items():
        record("ceiling", name, value, "TFLOP/s" if name == "tflops" else "GB/s", "torch, triton")
    return found


def check(candidate, w1, w2, inputs):
    candidate.layer(0)
    error = relative_error(candidate.layer(0), peers.reference(w1, w2, inputs, 0))
    if not error < 1e-2:
        print(f"  {candidate.name}: relative error {error:.2e}")
    return error


def layer_times(shape, tokens, w1, w2, limits, kinds):
    inputs = Inputs(shape, tokens)
    candidates, graphs = [], {}
    for kind in kinds:
        try:
            candidate = kind(w1, w2, inputs)
            if tokens <= 128 or kind in peers.OURS:
                check(candidate, w1, w2, inputs)
            graphs[kind.name] = capture(
                lambda: [candidate.layer(i) for i in range(inputs.sets)])
            candidates.append(candidate)
        except (RuntimeError, ImportError, AttributeError, TypeError, ValueError) as error:
            print(f"  {kind.name}: {type(error).__name__} {str(error)[:160]}")
            torch.cuda.synchronize()
    if tokens >= 4096:
        times = time_bursts(graphs)
    else:
        times = {name: time_graph(graph, inputs.sets) for name, graph in graphs.items()}
    floor_ms = max(inputs.weight_bytes() / limits["read"] / 1e6,
                   inputs.flops() / limits["tflops"] / 1e9)
    others = {name: t for name, t in times.items() if not name.startswith("waybill")}
    best_name = min(others, key=others.get, default="-")
    best = others.get(best_name, float("nan"))
    ours = times.get("waybill", float("nan"))
    print(f"{shape:10} T={tokens:<5} waybill {ours:8.4f} ms  floor {floor_ms:8.4f} "
          f"({100 * floor_ms / ours:3.0f} %)  best peer {best_name} {best:8.4f}  "
          f"(peer / waybill {best / ours:4.2f})  " +
          "  ".join(f"{n} {t:.4f}" for n, t in times.items() if n not in ("waybill", best_name)),
          flush=True)
    for name, value in times.items():
        record("layer", f"{shape}/{tokens}", value, "ms", name, floor_ms / value)
    for graph in graphs.values():
        graph.reset()


def plan_times():
    print("plan, E 256, k 8, microseconds in a graph of 8:")
    for tokens in (1, 32, 128, 512, 4096, 16384, 65536):
        ids = torch.rand(tokens, 256, device="cuda").topk(8, 1).indices.to(torch.int32).contiguous()
        flat = ids.flatten()
        plan, atomic = waybill_gpu.Plan(256, 8, tokens), triton_moe.Planner(tokens, 8, 256)
        calls = {
            "waybill": lambda: plan.build(ids),
            "triton atomics (not stable)": lambda: atomic.build(ids),
            "torch sort+histc+cumsum": lambda: (
                torch.sort(flat, stable=True),
                torch.histc(flat, bins=256, min=0, max=255).cumsum(0, dtype=torch.int32)),
        }
        times = {name: 1e3 * time_graph(capture(lambda: [call() for _ in range(8)]), 8)
                 for name, call in calls.items()}
        print(f"  T={tokens:<6} " + "  ".join(f"{n} {t:.2f}" for n, t in times.items()), flush=True)
        for name, value in times.items():
            record("plan", str(tokens), value, "us", name)


def row_movement(limits):
    hidden, topk = 7168, 8
    print("permute and combine, d 7168, k 8, bf16, GB/s of ideal bytes (share of the copy rate):")
    for tokens in (4096, 16384):
        ids = torch.rand(tokens, 256, device="cuda").topk(topk, 1).indices.to(torch.int32)
        ids = ids.contiguous()
        x = torch.randn(tokens, hidden, device="cuda").to(bf16)
        gates = torch.softmax(torch.randn(tokens, topk, device="cuda"), 1).contiguous()
        rows = torch.randn(tokens * topk, hidden, device="cuda").to(bf16)
        send, output = torch.empty_like(rows), torch.empty_like(x)
        plan = waybill_gpu.Plan(256, topk, tokens)
        plan.build(ids)
        atomic = triton_moe.Planner(tokens, topk, 256)
        atomic.build(ids)
        token = torch.argsort(ids.flatten(), stable=True) // topk
        calls = {
            "permute": {"waybill": lambda: plan.permute(x, send),
                        "torch index_select": lambda: torch.index_select(x, 0, token, out=send)},
            "combine": {"waybill": lambda: plan.combine(rows, gates, output),
                        "triton": lambda: triton_moe.combine(rows, atomic.position, gates, output)},
        }
        moved = (tokens + tokens * topk) * hidden * 2
        for case, candidates in calls.items():
            rates = {name: moved / time_graph(capture(call), 1) / 1e6
                     for name, call in candidates.items()}
            print(f"  {case} T={tokens:<6} " + "  ".join(
                f"{n} {r:.0f} ({100 * r / limits['copy']:.0f} %)" for n, r in rates.items()),
                flush=True)
            for name, rate in rates.items():
                record(case, str(tokens), rate, "GB/s", name, rate / limits["copy"])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true", help="two shapes and three sizes")
    options.add_argument("--sizes", type=int, nargs="+", help="tokens of the layers")
    options.add_argument("--json", help="also write rows here")
    options.add_argument("--kernels", action="store_true",
                         help="layers alone, with each of our product kernels too")
    chosen = options.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    limits = print_ceilings()
    if not chosen.kernels:
        plan_times()
        row_movement(limits)
    kinds = (*peers.OURS, peers.Triton) if chosen.kernels else (peers.Waybill, *peers.OTHERS)
    shapes = ("qwen3_30b", "mixtral") if chosen.quick else tuple(SHAPES)
    sizes = chosen.sizes or ((1, 32, 4096) if chosen.quick else (1, 8, 32, 128, 512, 4096))
    for shape in shapes:
        w1, w2 = make_weights(shape)
        for tokens in sizes:
            layer_times(shape, tokens, w1, w2, limits, kinds)
        del w1, w2
        torch.cuda.empty_cache()
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as out:
            json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
