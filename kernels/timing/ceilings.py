"""What this card can do at best, measured now: moving much memory, and a large matrix product."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.timing.rounds import Timed, interleave

COPY_BYTES = 2 << 30
SQUARE = 8192


@dataclass(frozen=True)
class Ceilings:
    """Rates reached on random data: the product's best and median, and the best of memory.

    Memory's is that of a copy, counted both ways, or of reading alone, whichever is faster: a layer
    that reads far more than it writes is not held up by the turns of a copy.
    """

    flops_per_s: float
    sustained_flops_per_s: float
    bytes_per_s: float


def measure_ceilings(rounds: int = 9) -> Ceilings | None:
    """Time a copy, a sum and an 8192-cubed bfloat16 product; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    source = torch.randn(COPY_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    a, b = (torch.randn(SQUARE, SQUARE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    times = interleave(
        [
            # A kernel, not a copy: in a graph a copy goes to the slower copy engine.
            Timed("copy", lambda: torch.add(source, 1.0, out=target)),
            Timed("read", lambda: torch.sum(source)),
            Timed("matmul", lambda: torch.mm(a, b)),
        ],
        rounds,
    )
    flops = 2 * SQUARE**3
    return Ceilings(
        flops_per_s=flops / (times["matmul"].min_us * 1e-6),
        sustained_flops_per_s=flops / (times["matmul"].median_us * 1e-6),
        bytes_per_s=max(
            2 * COPY_BYTES / (times["copy"].min_us * 1e-6),
            COPY_BYTES / (times["read"].min_us * 1e-6),
        ),
    )
