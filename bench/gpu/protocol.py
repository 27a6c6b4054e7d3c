"""Shapes, inputs and timing. Every timed call is a CUDA graph. T <= 128: one graph of 8 layers over 8
routing sets; T = 512: two; T >= 4096: one, in short bursts out of idle. Candidates of a cell take
turns; medians. Outputs are poisoned before a cell is timed and checked after it."""
import statistics
import time

import torch

SHAPES = {  # hidden, ff, experts, topk
    "dsv3": (7168, 2048, 256, 8),
    "dsv3_ep32": (7168, 2048, 32, 8),
    "qwen3_30b": (2048, 768, 128, 8),
    "mixtral": (4096, 14336, 8, 2),
    "olmoe": (2048, 1024, 64, 8),
    "gptoss20b": (2880, 2880, 32, 4),
}


def sets_for(tokens):
    return 8 if tokens <= 128 else 2 if tokens <= 512 else 1


class Inputs:
    """Distinct experts a token, gates that sum to one, normal rows: fresh at every run."""

    def __init__(self, shape, tokens):
        self.hidden_size, self.ff, self.experts, self.topk = SHAPES[shape]
        self.tokens, self.sets = tokens, sets_for(tokens)
        new = lambda make: [make() for _ in range(self.sets)]
        self.ids = new(lambda: torch.rand(tokens, self.experts, device="cuda")
                       .topk(self.topk, dim=1).indices.to(torch.int32).contiguous())
        self.gates = new(lambda: torch.softmax(
            torch.randn(tokens, self.topk, device="cuda"), dim=1).contiguous())
        self.hidden = new(lambda: torch.randn(
            tokens, self.hidden_size, device="cuda").to(torch.bfloat16))
        self.touched = statistics.mean(ids.unique().numel() for ids in self.ids)

    def weight_bytes(self):
        return self.touched * 3 * self.hidden_size * self.ff * 2

    def flops(self):
        return 6.0 * self.tokens * self.topk * self.hidden_size * self.ff


def make_weights(shape):
    hidden, ff, experts, _ = SHAPES[shape]
    w1 = torch.empty(experts, 2 * ff, hidden, device="cuda", dtype=torch.bfloat16)
    w2 = torch.empty(experts, hidden, ff, device="cuda", dtype=torch.bfloat16)
    for e in range(experts):
        w1[e].normal_(0, hidden ** -0.5)
        w2[e].normal_(0, ff ** -0.5)
    return w1, w2


class Cell:
    """One candidate of a table's cell: a graph of call(), the tensors that it writes (what call()
    returned at capture, unless `written` is given) and wrong() -> what is wrong with them, or None.
    """

    def __init__(self, call, wrong, written=None):
        self.call = call  # holds what the graph's kernels read and write
        self.graph, returned = _capture(call)
        self.written = returned if written is None else written
        self.wrong = wrong

    def poison(self):
        for tensor in self.written:
            tensor.fill_(float("nan") if tensor.is_floating_point() else -77)


def _capture(call):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
        call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        returned = call()
    return graph, returned


def _time(graph, replays):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / replays


def _back_to_back(graphs, target_ms, groups):
    """Milliseconds of each graph's replays, in groups of back-to-back ones that take turns."""
    replays = {}
    for name, graph in graphs.items():
        graph.replay()
        estimate = max(_time(graph, 2), 1e-3)
        replays[name] = max(1, int(target_ms / groups / estimate), int(0.4 / estimate))
    samples = {name: [] for name in graphs}
    for _ in range(groups):
        for name, graph in graphs.items():
            samples[name].append(_time(graph, replays[name]))
    return samples


def _bursts(graphs, rounds=5, idle=0.25):
    """Milliseconds of each graph in short bursts out of idle that take turns."""
    samples = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            torch.cuda.synchronize()
            time.sleep(idle)
            graph.replay()
            samples[name] += [_time(graph, 1) for _ in range(3)]
    return samples


def time_calls(calls, inner=1, bursts=False, target_ms=40, groups=11):
    """Median milliseconds of one of `inner` pieces of work in each of `calls` {name: call}."""
    graphs = {name: _capture(call)[0] for name, call in calls.items()}
    samples = _bursts(graphs) if bursts else _back_to_back(graphs, target_ms, groups)
    return {name: statistics.median(times) / inner for name, times in samples.items()}


def time_cells(cells, inner=1, bursts=False):
    """The same for {name: Cell}: outputs are poisoned first, and what the timed replays wrote is
    checked. Returns the times and {name: what is wrong}."""
    for cell in cells.values():
        cell.poison()
    graphs = {name: cell.graph for name, cell in cells.items()}
    samples = _bursts(graphs) if bursts else _back_to_back(graphs, target_ms=40, groups=11)
    wrong = {name: cell.wrong() for name, cell in cells.items()}
    return ({name: statistics.median(times) / inner for name, times in samples.items()},
            {name: text for name, text in wrong.items() if text is not None})


def relative_error(found, expected):
    found, expected = found.float(), expected.float()
    return ((found - expected).norm() / expected.norm()).item()


def inexact(found, expected, limit=1e-2):
    """What is wrong with tensors that should be the expected ones up to rounding, or None."""
    errors = [relative_error(f, e) for f, e in zip(found, expected, strict=True)]
    worst = max(errors, key=lambda error: error if error == error else float("inf"))
    return None if worst < limit else f"relative error {worst:.2e}"
