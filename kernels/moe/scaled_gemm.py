"""The layer's grouped GEMMs on 8-bit floats with block scales, in portable Triton.

Rows are quantised to e4m3 with a scale for each 128 columns: x in a launch of its own, the hidden
rows in layer 0's epilogue. Products go over at most 128 columns; each is scaled and added in
float32. Operands are e4m3 tensors where `NATIVE`, else their codes as uint8; see `kernels.e4m3`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.e4m3 import GROUP, product, quantise
from kernels.interpreted import narrow
from kernels.moe.grouped_gemm import load_tile, silu_mul, store_rows


@triton.jit
def quantise_kernel(
    x_ptr, values_ptr, scales_ptr, tokens, H, stride_xt, stride_xh,
    ROWS: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """One group of ROWS rows of x (T, H): values (T, H), scales (T, ceil(H / 128)) contiguous."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    col = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    row_ok = row < tokens
    inside = row_ok[:, None] & (col < H)[None, :]
    x_at = x_ptr + row[:, None] * stride_xt + col[None, :].to(tl.int64) * stride_xh
    x = tl.load(x_at, mask=inside, other=0.0)
    values, scale = quantise(x.to(tl.float32), NATIVE)
    tl.store(values_ptr + row[:, None] * H + col[None, :], values, mask=inside)
    tl.store(scales_ptr + row * tl.cdiv(H, GROUP) + tl.program_id(1), scale, mask=row_ok)


@triton.jit
def scaled_gate_up_kernel(
    x_ptr, x_scale_ptr, w13_ptr, scale13_ptr, h_ptr, h_scale_ptr,
    choice_of_row_ptr, tiles_ptr, totals_ptr,
    H, INTER,
    stride_we, stride_wr, stride_wh, stride_se, stride_sr, stride_sh,
    TOP_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ACTIVATE: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Layer 0, BM rows by 128 columns: `h[row] = silu(x[token] @ gate^T) * (x[token] @ up^T)`.

    x is (T, H) and w13 (E, 2 * INTER, H), each with its scales; h (rows, INTER) contiguous is
    quantised here, for a program has whole groups of its columns. With ACTIVATE off, h is
    (rows, 2 * INTER) of a wider type and receives gate and up as they are: the GEMM alone.
    """
    tl.static_assert(BN == GROUP, "a program must have whole groups of h")
    tl.static_assert(GROUP % BK == 0, "a product must not reach over two scales")
    columns = tl.cdiv(INTER, BN)
    tile = tl.program_id(0) // columns
    if tile >= tl.load(totals_ptr):
        return
    expert, rows, row_ok = load_tile(tiles_ptr, tile, BM)
    choice = tl.load(choice_of_row_ptr + rows, mask=row_ok, other=0)
    token = (choice // TOP_K).to(tl.int64)
    col = (tl.program_id(0) % columns) * BN + tl.arange(0, BN)
    col_ok = col < INTER
    inner = tl.arange(0, BK)
    x_at = x_ptr + token[:, None] * H + inner[None, :]
    gate_at = (
        w13_ptr + expert * stride_we
        + col[None, :].to(tl.int64) * stride_wr + inner[:, None] * stride_wh
    )  # fmt: skip
    up_at = gate_at + tl.cast(INTER, tl.int64) * stride_wr
    x_scale_at = x_scale_ptr + token * tl.cdiv(H, GROUP)
    scales_at = scale13_ptr + expert * stride_se
    gate_scale_at = scales_at + (col // GROUP) * stride_sr
    up_scale_at = scales_at + ((INTER + col) // GROUP) * stride_sr

    # Main loop
    gate = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    for k in range(0, H, BK):
        inside = inner < H - k
        x = tl.load(x_at, mask=row_ok[:, None] & inside[None, :], other=0.0)
        weight_ok = inside[:, None] & col_ok[None, :]
        gate_weight = tl.load(gate_at, mask=weight_ok, other=0.0)
        up_weight = tl.load(up_at, mask=weight_ok, other=0.0)
        group = k // GROUP
        x_scale = tl.load(x_scale_at + group, mask=row_ok, other=0.0)
        gate_scale = tl.load(gate_scale_at + group * stride_sh, mask=col_ok, other=0.0)
        up_scale = tl.load(up_scale_at + group * stride_sh, mask=col_ok, other=0.0)
        gate += product(x, gate_weight, NATIVE) * x_scale[:, None] * gate_scale[None, :]
        up += product(x, up_weight, NATIVE) * x_scale[:, None] * up_scale[None, :]
        x_at += BK
        gate_at += BK * stride_wh
        up_at += BK * stride_wh

    # Epilogue
    stored = row_ok[:, None] & col_ok[None, :]
    if ACTIVATE:
        # Columns past INTER are zero, or NaN beside a NaN in x: neither has a say in the scale.
        values, scale = quantise(silu_mul(gate, up), NATIVE)
        h_at = h_ptr + rows.to(tl.int64)[:, None] * INTER + col[None, :]
        tl.store(h_at, values, mask=stored)
        h_scale_at = h_scale_ptr + rows.to(tl.int64) * columns + tl.program_id(0) % columns
        tl.store(h_scale_at, scale, mask=row_ok)
    else:
        h_at = h_ptr + rows.to(tl.int64)[:, None] * (2 * INTER) + col[None, :]
        tl.store(h_at, narrow(gate, h_ptr.dtype.element_ty), mask=stored)
        tl.store(h_at + INTER, narrow(up, h_ptr.dtype.element_ty), mask=stored)


@triton.jit
def scaled_down_kernel(
    h_ptr, h_scale_ptr, w2_ptr, scale2_ptr, y_ptr,
    choice_of_row_ptr, weights_ptr, tiles_ptr, totals_ptr,
    H, INTER,
    stride_we, stride_wh, stride_wi, stride_se, stride_sh, stride_si,
    TOP_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ATOMIC: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Layer 1: `y[row] = h[row] @ w2^T`, BM rows by BN columns a program.

    h is (rows, INTER) and w2 (E, H, INTER), each with its scales; y as in `store_rows`.
    """
    tl.static_assert(GROUP % BK == 0, "a product must not reach over two scales")
    columns = tl.cdiv(H, BN)
    tile = tl.program_id(0) // columns
    if tile >= tl.load(totals_ptr):
        return
    expert, rows, row_ok = load_tile(tiles_ptr, tile, BM)
    col = (tl.program_id(0) % columns) * BN + tl.arange(0, BN)
    col_ok = col < H
    inner = tl.arange(0, BK)
    h_at = h_ptr + rows.to(tl.int64)[:, None] * INTER + inner[None, :]
    w_at = (
        w2_ptr + expert * stride_we
        + col[None, :].to(tl.int64) * stride_wh + inner[:, None] * stride_wi
    )  # fmt: skip
    h_scale_at = h_scale_ptr + rows.to(tl.int64) * tl.cdiv(INTER, GROUP)
    scale_at = scale2_ptr + expert * stride_se + (col // GROUP) * stride_sh

    # Main loop
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, INTER, BK):
        inside = inner < INTER - k
        h = tl.load(h_at, mask=row_ok[:, None] & inside[None, :], other=0.0)
        w = tl.load(w_at, mask=inside[:, None] & col_ok[None, :], other=0.0)
        group = k // GROUP
        h_scale = tl.load(h_scale_at + group, mask=row_ok, other=0.0)
        scale = tl.load(scale_at + group * stride_si, mask=col_ok, other=0.0)
        acc += product(h, w, NATIVE) * h_scale[:, None] * scale[None, :]
        h_at += BK
        w_at += BK * stride_wi

    # Epilogue
    store_rows(
        acc, y_ptr, rows, col, row_ok, col_ok, choice_of_row_ptr, weights_ptr, H, TOP_K, ATOMIC
    )
