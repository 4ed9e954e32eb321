"""The layer's two grouped GEMMs and its combination, in portable Triton.

No NVIDIA-only call: the same source runs interpreted on a CPU, on sm_80 and newer, and on AMD. Rows
are sorted by expert, so a tile belongs to one expert and its weights are one matrix.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kernels.interpreted import dot, narrow

TILE_FIELDS = tl.constexpr(4)


@triton.jit
def silu_mul(gate, up):
    """SiLU(gate) * up in float32."""
    return gate / (1.0 + tl.exp(-gate)) * up


@triton.jit
def load_tile(tiles_ptr, tile, BM: tl.constexpr):
    """Expert, row indices (BM,) and their mask for a tile; expert strides pass 2^31, so int64."""
    at = tiles_ptr + tile * TILE_FIELDS
    expert = tl.load(at).to(tl.int64)
    lane = tl.arange(0, BM)
    rows = tl.load(at + 1) + lane
    return expert, rows, lane < tl.load(at + 2)


@triton.jit
def store_rows(
    acc, y_ptr, rows, col, row_ok, col_ok, choice_of_row_ptr, weights_ptr, H,
    TOP_K: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """Write a tile of layer 1 to y, (rows, H) contiguous.

    With ATOMIC y is the (T, H) float32 sum, to which each row is added with its router weight, in
    no fixed order.
    """
    stored = row_ok[:, None] & col_ok[None, :]
    if ATOMIC:
        choice = tl.load(choice_of_row_ptr + rows, mask=row_ok, other=0)
        weight = tl.load(weights_ptr + choice, mask=row_ok, other=0.0)
        token = (choice // TOP_K).to(tl.int64)
        tl.atomic_add(
            y_ptr + token[:, None] * H + col[None, :], acc * weight[:, None], mask=stored,
            sem="relaxed",
        )  # fmt: skip
    else:
        y_at = y_ptr + rows.to(tl.int64)[:, None] * H + col[None, :]
        tl.store(y_at, narrow(acc, y_ptr.dtype.element_ty), mask=stored)


@triton.jit
def gate_up_kernel(
    x_ptr, w13_ptr, h_ptr, choice_of_row_ptr, tiles_ptr, totals_ptr,
    H, INTER,
    stride_xt, stride_xh, stride_we, stride_wr, stride_wh,
    TOP_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ACTIVATE: tl.constexpr,
):  # fmt: skip
    """Layer 0, BM rows by BN columns: `h[row] = silu(x[token] @ gate^T) * (x[token] @ up^T)`.

    x is (T, H) and gathered through the table, w13 (E, 2 * INTER, H), h (rows, INTER) contiguous.
    With ACTIVATE off, h is (rows, 2 * INTER) and receives gate and up as they are: the GEMM alone.
    """
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
    x_at = x_ptr + token[:, None] * stride_xt + inner[None, :] * stride_xh
    gate_at = (
        w13_ptr + expert * stride_we
        + col[None, :].to(tl.int64) * stride_wr + inner[:, None] * stride_wh
    )  # fmt: skip
    up_at = gate_at + tl.cast(INTER, tl.int64) * stride_wr

    # Main loop
    gate = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    for k in range(0, H, BK):
        inside = inner < H - k
        x = tl.load(x_at, mask=row_ok[:, None] & inside[None, :], other=0.0)
        weight_ok = inside[:, None] & col_ok[None, :]
        gate = dot(x, tl.load(gate_at, mask=weight_ok, other=0.0), gate)
        up = dot(x, tl.load(up_at, mask=weight_ok, other=0.0), up)
        x_at += BK * stride_xh
        gate_at += BK * stride_wh
        up_at += BK * stride_wh

    # Epilogue
    dtype: tl.constexpr = h_ptr.dtype.element_ty
    stored = row_ok[:, None] & col_ok[None, :]
    if ACTIVATE:
        h_at = h_ptr + rows.to(tl.int64)[:, None] * INTER + col[None, :]
        tl.store(h_at, narrow(silu_mul(gate, up), dtype), mask=stored)
    else:
        h_at = h_ptr + rows.to(tl.int64)[:, None] * (2 * INTER) + col[None, :]
        tl.store(h_at, narrow(gate, dtype), mask=stored)
        tl.store(h_at + INTER, narrow(up, dtype), mask=stored)


@triton.jit
def down_kernel(
    h_ptr, w2_ptr, y_ptr, choice_of_row_ptr, weights_ptr, tiles_ptr, totals_ptr,
    H, INTER,
    stride_we, stride_wh, stride_wi,
    TOP_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ATOMIC: tl.constexpr,
):  # fmt: skip
    """Layer 1: `y[row] = h[row] @ w2^T`, BM rows by BN columns a program.

    h is (rows, INTER) contiguous, w2 (E, H, INTER); y as in `store_rows`.
    """
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

    # Main loop
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, INTER, BK):
        inside = inner < INTER - k
        h = tl.load(h_at, mask=row_ok[:, None] & inside[None, :], other=0.0)
        w = tl.load(w_at, mask=inside[:, None] & col_ok[None, :], other=0.0)
        acc = dot(h, w, acc)
        h_at += BK
        w_at += BK * stride_wi

    # Epilogue
    store_rows(
        acc, y_ptr, rows, col, row_ok, col_ok, choice_of_row_ptr, weights_ptr, H, TOP_K, ATOMIC
    )


@triton.jit
def combine_kernel(
    y_ptr, out_ptr, row_of_choice_ptr, weights_ptr, tokens, H,
    TOP_K: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """`out[t] = sum_j weights[t, j] * y[row of (t, j)]`, float32, j ascending, dropped skipped."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    token_ok = token < tokens
    acc = tl.zeros((TOKENS, COLUMNS), tl.float32)
    for j in tl.static_range(TOP_K):
        choice = token * TOP_K + j
        row = tl.load(row_of_choice_ptr + choice, mask=token_ok, other=-1)
        kept = row >= 0
        weight = tl.load(weights_ptr + choice, mask=kept, other=0.0)
        y = tl.load(
            y_ptr + row.to(tl.int64)[:, None] * H + col[None, :],
            mask=kept[:, None] & (col < H)[None, :],
            other=0.0,
        ).to(tl.float32)
        # Zeros already where a choice was dropped; the select stays, as it is in what was measured.
        acc += tl.where(kept[:, None], weight[:, None] * y, 0.0)
    tl.store(
        out_ptr + token.to(tl.int64)[:, None] * H + col[None, :],
        narrow(acc, out_ptr.dtype.element_ty),
        mask=token_ok[:, None] & (col < H)[None, :],
    )


@triton.jit
def activation_kernel(gate_up_ptr, h_ptr, rows_ptr, INTER, BLOCK: tl.constexpr):
    """`h = silu(gate) * up`, (rows, 2 * INTER) -> (rows, INTER): a stage control."""
    row = tl.program_id(0).to(tl.int64)
    if row >= tl.load(rows_ptr):
        return
    for start in range(0, INTER, BLOCK):
        col = start + tl.arange(0, BLOCK)
        gate = tl.load(gate_up_ptr + row * 2 * INTER + col, mask=col < INTER, other=0.0).to(
            tl.float32
        )
        up = tl.load(gate_up_ptr + row * 2 * INTER + INTER + col, mask=col < INTER, other=0.0).to(
            tl.float32
        )
        hidden = narrow(silu_mul(gate, up), h_ptr.dtype.element_ty)
        tl.store(h_ptr + row * INTER + col, hidden, mask=col < INTER)
