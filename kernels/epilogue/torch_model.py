"""The same two kernels written as torch code, tile by tile, for machines without Triton.

It keeps the kernels' tiling, masking and rounding points, so it can stand in for their numerics.
It is not the kernel: a result from it says so in the recorded `backend`.
"""

from __future__ import annotations

import torch
from torch.nn.functional import gelu


def launch_gelu_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    block: tuple[int, int, int],
) -> None:
    """Write `gelu(x @ w + b) * scale` to `out` with float32 tiles and one rounding each."""
    (M, K), N = x.shape, w.shape[1]
    block_m, block_n, block_k = block
    for m in range(0, M, block_m):
        for n in range(0, N, block_n):
            rows, cols = slice(m, min(m + block_m, M)), slice(n, min(n + block_n, N))
            acc = b[cols].float().expand(rows.stop - rows.start, -1).clone()
            for k in range(0, K, block_k):
                inner = slice(k, min(k + block_k, K))
                acc += x[rows, inner].float() @ w[inner, cols].float()
            out[rows, cols] = (gelu(acc) * scale).to(out.dtype)


def launch_add_relu(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, block: int) -> None:
    """Write `relu(x + y)` to `out`, `block` elements at a time."""
    flat_x, flat_y, flat_out = x.view(-1), y.view(-1), out.view(-1)
    for start in range(0, flat_out.numel(), block):
        part = slice(start, start + block)
        flat_out[part] = torch.relu(flat_x[part].float() + flat_y[part].float()).to(out.dtype)
