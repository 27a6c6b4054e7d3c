"""What the machine does at most: bf16 products, copies, reads and empty kernels."""
import torch
import triton
import triton.language as tl

from protocol import time_calls


@triton.jit
def _copy(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at))


@triton.jit
def _nothing(memory):
    pass


def measure():
    """TFLOP/s of torch.mm at 8192^3 in a burst; GB/s of the better of two copies (read and written
    bytes) and of a reduction (read bytes); microseconds of an empty kernel in a graph of eight and
    of one."""
    a, b = (torch.randn(8192, 8192, device="cuda").to(torch.bfloat16) for _ in range(2))
    product = torch.empty_like(a)
    matrix_ms = time_calls({"mm": lambda: torch.mm(a, b.t(), out=product)}, bursts=True)["mm"]
    n = 1 << 31
    source = torch.empty(n, device="cuda", dtype=torch.bfloat16).normal_()
    target = torch.empty_like(source)
    words = source.view(torch.float32)
    moves = time_calls({
        "torch": lambda: target.copy_(source),
        "triton": lambda: _copy[(n // 8192,)](source, target, BLOCK=8192, num_warps=8),
        "read": lambda: torch.sum(words)})
    if not torch.equal(source.view(torch.int16), target.view(torch.int16)):
        raise RuntimeError("the copy is not the source")
    empty = {count: 1e3 * time_calls({"": lambda: [_nothing[(1,)](a) for _ in range(count)]},
                                     inner=count)[""] for count in (8, 1)}
    return dict(tflops=2 * 8192 ** 3 / matrix_ms / 1e9,
                copy=4 * n / min(moves["torch"], moves["triton"]) / 1e6,
                read=2 * n / moves["read"] / 1e6, empty_of_8=empty[8], empty_of_1=empty[1])
