"""The two operators as one Triton kernel each; compiled on a GPU, interpreted on a CPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.interpreted import dot, narrow

SQRT_HALF = tl.constexpr(0.7071067811865476)


@triton.jit
def gelu_linear_kernel(
    x_ptr, w_ptr, b_ptr, out_ptr,
    M, N, K, scale,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One (BLOCK_M, BLOCK_N) tile of `gelu(x @ w + b) * scale`; n varies fastest over programs.

    Offsets are 64-bit: a row times its stride passes 2^31 at ordinary sizes.
    """
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (tl.program_id(0) // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tl.program_id(0) % tiles_n).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_ok = rows[:, None] < M
    col_ok = cols[None, :] < N

    # Main loop
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K).to(tl.int64)
        x = tl.load(
            x_ptr + rows[:, None] * stride_xm + inner[None, :] * stride_xk,
            mask=row_ok & (inner[None, :] < K),
            other=0.0,
        )
        w = tl.load(
            w_ptr + inner[:, None] * stride_wk + cols[None, :] * stride_wn,
            mask=(inner[:, None] < K) & col_ok,
            other=0.0,
        )
        acc = dot(x, w, acc)

    # Epilogue: exact (erf) GELU in float32, one rounding at the store
    bias = tl.load(b_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    z = acc + bias[None, :]
    out = 0.5 * z * (1.0 + tl.erf(z * SQRT_HALF)) * scale
    tl.store(
        out_ptr + rows[:, None] * stride_om + cols[None, :] * stride_on,
        narrow(out, out_ptr.dtype.element_ty),
        mask=row_ok & col_ok,
    )


@triton.jit
def add_relu_kernel(x_ptr, y_ptr, out_ptr, elements, BLOCK: tl.constexpr):
    """`relu(x + y)` over flat contiguous memory; a NaN input gives NaN, as in PyTorch."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < elements
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    total = x + y
    relu = tl.where(total < 0.0, 0.0, total)
    tl.store(out_ptr + offsets, narrow(relu, out_ptr.dtype.element_ty), mask=inside)


def launch_gelu_linear(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    block: tuple[int, int, int],
) -> None:
    """Write `gelu(x @ w + b) * scale` to `out`; all on one device, operands of any strides."""
    (M, K), N = x.shape, w.shape[1]
    block_m, block_n, block_k = block
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    if tiles:
        gelu_linear_kernel[(tiles,)](
            x, w, b, out, M, N, K, scale, *x.stride(), *w.stride(), *out.stride(),
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        )  # fmt: skip


def launch_add_relu(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, block: int) -> None:
    """Write `relu(x + y)` to `out`; all three contiguous and of one shape."""
    programs = triton.cdiv(out.numel(), block)
    if programs:
        add_relu_kernel[(programs,)](x, y, out, out.numel(), BLOCK=block)
