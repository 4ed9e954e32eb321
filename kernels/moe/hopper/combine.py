"""The combination: a token's rows of y, weighted and summed in the order of its choices."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.moe.hopper.items import COMBINE_TOKENS, WIDE, wait_for


@gluon.jit
def rows_of(row_of_choice_ptr, weights_ptr, t, tokens, TOP_K: gl.constexpr):
    """Rows of y and weights of the tokens `t`, an entry a choice; row -1 for a dropped choice."""
    rows = ()
    weights = ()
    for j in gl.static_range(TOP_K):
        row = gl.load(row_of_choice_ptr + t * TOP_K + j, mask=t < tokens, other=-1)
        weight = gl.load(weights_ptr + t * TOP_K + j, mask=t < tokens, other=0.0)
        rows = rows + (row,)  # noqa: RUF005  Gluon knows no unpacking
        # Where a choice was dropped y is zero too, so a stray NaN weight cannot enter.
        weights = weights + (gl.where(row >= 0, weight, 0.0),)  # noqa: RUF005
    return rows, weights


@gluon.jit
def combine(
    y_ptr, out_ptr, row_of_choice_ptr, weights_ptr, done_ptr, tiles, token, tokens, column,
    H: gl.constexpr, TOP_K: gl.constexpr,
):  # fmt: skip
    """Sum the weighted rows of COMBINE_TOKENS tokens over 256 columns, choices in order.

    Which rows they are is known before the `tiles` that write them are done, so is asked first.
    """
    PART: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [8, 1], [1, 0])
    t = token + gl.arange(0, COMBINE_TOKENS, layout=gl.SliceLayout(1, PART))
    c = column + gl.arange(0, WIDE, layout=gl.SliceLayout(0, PART))
    c = gl.max_contiguous(gl.multiple_of(c, 8), 8)
    rows, weights = rows_of(row_of_choice_ptr, weights_ptr, t, tokens, TOP_K)
    wait_for(done_ptr, tiles)
    stored = (t < tokens)[:, None] & (c < H)[None, :]
    acc = gl.zeros((COMBINE_TOKENS, WIDE), gl.float32, layout=PART)
    for j in gl.static_range(TOP_K):
        # Past L1, of which the stages leave 28 KiB: a fifth of what is asked for at once here.
        y = gl.load(
            y_ptr + rows[j].to(gl.int64)[:, None] * H + c[None, :],
            mask=stored & (rows[j] >= 0)[:, None],
            other=0.0,
            cache_modifier=".cg",
        )
        acc += weights[j][:, None] * y.to(gl.float32)
    gl.store(
        out_ptr + t.to(gl.int64)[:, None] * H + c[None, :],
        acc.to(out_ptr.dtype.element_ty),
        mask=stored,
    )
