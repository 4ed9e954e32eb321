"""What becomes of an accumulator: SiLU(gate) * up of both halves, and the store of its rows."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.moe.hopper.items import HALF, QUARTER


@gluon.jit
def silu_mul(gate, up, ACTIVATE: gl.constexpr):
    if ACTIVATE:
        hidden = gate / (1.0 + gl.exp(-gate)) * up
    else:
        hidden = gate + up
    return hidden


@gluon.jit
def activate(acc, ROWS: gl.constexpr, TAIL_IS_M: gl.constexpr, ACTIVATE: gl.constexpr):
    """SiLU(gate) * up of a (ROWS, 256) accumulator, both halves of a column in one thread.

    TAIL_IS_M keeps the columns as gate 0-63, up 0-63, gate 64-127, up 64-127, so that two warp
    groups may halve a tile's columns; otherwise gate 0-127, up 0-127.
    """
    if TAIL_IS_M:
        gate, up = acc.reshape([ROWS, 2, 2, QUARTER]).permute(0, 1, 3, 2).split()
        hidden = silu_mul(gate, up, ACTIVATE).reshape([ROWS, HALF])
    else:
        gate, up = acc.reshape([ROWS, 2, HALF]).permute(0, 2, 1).split()
        hidden = silu_mul(gate, up, ACTIVATE)
    return hidden


@gluon.jit
def activate_transposed(acc, BT: gl.constexpr, ACTIVATE: gl.constexpr):
    """The same for a (256, BT) accumulator of weight rows by tail rows -> (128, BT)."""
    gate, up = acc.reshape([2, HALF, BT]).permute(1, 2, 0).split()
    return silu_mul(gate, up, ACTIVATE)


@gluon.jit
def store_rows(ptr, width, row, rows, column, value, layout: gl.constexpr):
    """Store the first `rows` rows of `value` to a (., width) matrix, 16 bytes a thread."""
    value = gl.convert_layout(value.to(ptr.dtype.element_ty), layout)
    r = gl.arange(0, value.shape[0], layout=gl.SliceLayout(1, layout))
    c = column + gl.arange(0, value.shape[1], layout=gl.SliceLayout(0, layout))
    c = gl.max_contiguous(gl.multiple_of(c, 8), 8)
    gl.store(
        ptr + (row + r).to(gl.int64)[:, None] * width + c[None, :],
        value,
        mask=(r < rows)[:, None] & (c < width)[None, :],
    )


@gluon.jit
def store_transposed(ptr, width, row, rows, column, value, layout: gl.constexpr):
    """Store the first `rows` columns of `value` as rows of a (., width) matrix."""
    value = gl.convert_layout(value.to(ptr.dtype.element_ty), layout)
    c = column + gl.arange(0, value.shape[0], layout=gl.SliceLayout(1, layout))
    c = gl.max_contiguous(gl.multiple_of(c, 8), 8)
    r = gl.arange(0, value.shape[1], layout=gl.SliceLayout(0, layout))
    gl.store(
        ptr + (row + r).to(gl.int64)[None, :] * width + c[:, None],
        value,
        mask=(r < rows)[None, :] & (c < width)[:, None],
    )
