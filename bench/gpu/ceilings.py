"""What the machine does at most: bf16 products, copies and reads."""
import torch
import triton
import triton.language as tl

from protocol import capture, time_bursts, time_graph


@triton.jit
def _copy(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at))


def measure():
    """TFLOP/s of torch.mm at 8192^3 in a burst; GB/s of the better of two copies (read and written
    bytes) and of a reduction (read bytes)."""
    a, b = (torch.randn(8192, 8192, device="cuda").to(torch.bfloat16) for _ in range(2))
    product = torch.empty_like(a)
    matrix_ms = time_bursts({"mm": capture(lambda: torch.mm(a, b.t(), out=product))})["mm"]
    n = 1 << 31
    source = torch.empty(n, device="cuda", dtype=torch.bfloat16).normal_()
    target = torch.empty_like(source)
    copies = (lambda: target.copy_(source),
              lambda: _copy[(n // 8192,)](source, target, BLOCK=8192, num_warps=8))
    copy_ms = min(time_graph(capture(call), 1) for call in copies)
    words = source.view(torch.float32)
    read_ms = time_graph(capture(lambda: torch.sum(words)), 1)
    return dict(tflops=2 * 8192 ** 3 / matrix_ms / 1e9, copy=4 * n / copy_ms / 1e6,
                read=2 * n / read_ms / 1e6)
