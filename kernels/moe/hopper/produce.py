"""The producers: four warps that draw items, pass them on and keep the stages full."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.extra.cuda import gdc_wait

from kernels.moe.hopper.items import (
    BK,
    COMBINE,
    FIELDS,
    GATE_UP,
    HALF,
    QUARTER,
    WIDE,
    draw,
    field,
    send,
    wait_for,
)


@gluon.jit
def fill_stages(
    step, first, last, kind, w13_desc, w2_desc, expert, column,
    body_at, body_ok, body, tail_at, tail_ok, tail,
    x_s, tail_s, w_s, full, empty,
    STAGES: gl.constexpr, TAIL_STAGES: gl.constexpr, TAIL_IS_M: gl.constexpr,
):  # fmt: skip
    """Load inner blocks `first` to `last` of one tile; returns the running step number."""
    for k in range(first, last):
        stage = step % STAGES
        mbarrier.wait(empty.index(stage), ((step // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(stage), WIDE * BK * 2)
        w = w_s.index(stage)
        if kind == GATE_UP:
            if TAIL_IS_M:
                tma.async_copy_global_to_shared(
                    w13_desc, [expert, column // QUARTER, 0, 0, k * BK], full.index(stage),
                    w._reinterpret(
                        w.dtype, [1, 2, 2, QUARTER, BK], gl.NVMMASharedLayout(128, 16, 5)
                    ),
                )  # fmt: skip
            else:
                tma.async_copy_global_to_shared(
                    w13_desc, [expert, 0, column, k * BK], full.index(stage),
                    w._reinterpret(w.dtype, [1, 2, HALF, BK], gl.NVMMASharedLayout(128, 16, 4)),
                )  # fmt: skip
        else:
            tma.async_copy_global_to_shared(
                w2_desc, [expert, column, k * BK], full.index(stage),
                w._reinterpret(w.dtype, [1, WIDE, BK], gl.NVMMASharedLayout(128, 16, 3)),
            )  # fmt: skip
        if body > 0:
            async_copy.async_copy_global_to_shared(x_s.index(stage), body_at + k * BK, mask=body_ok)
        if tail > 0:
            if TAIL_STAGES < STAGES:
                # The tail ring is shorter: its slot is free once that many steps are consumed.
                used = step - TAIL_STAGES
                mbarrier.wait(
                    empty.index((used + STAGES) % STAGES), (used // STAGES) & 1, pred=used >= 0
                )
            async_copy.async_copy_global_to_shared(
                tail_s.index(step % TAIL_STAGES), tail_at + k * BK, mask=tail_ok
            )
        async_copy.mbarrier_arrive(full.index(stage), increment_count=False)
        step += 1
    return step


@gluon.jit
def produce(
    w13_desc, w2_desc, x_ptr, h_ptr, choice_of_row_ptr, items_ptr, first_ptr, last_ptr, cursor_ptr,
    tile_ready_ptr, x_s, tail_s, w_s, full, empty, mail, sent, read,
    H: gl.constexpr, INTER: gl.constexpr, TOP_K: gl.constexpr, BM: gl.constexpr, BT: gl.constexpr,
    STAGES: gl.constexpr, TAIL_STAGES: gl.constexpr, TAIL_IS_M: gl.constexpr,
):  # fmt: skip
    """Producer partition, 4 warps: draw items, pass them on, keep the stages full."""
    ITEM: gl.constexpr = gl.BlockedLayout([FIELDS], [32], [4], [0])
    COPY: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    ROW: gl.constexpr = gl.SliceLayout(1, COPY)
    body_row = gl.arange(0, BM, layout=ROW)
    tail_row = gl.arange(0, BT, layout=ROW)
    inner = gl.arange(0, BK, layout=gl.SliceLayout(0, COPY))
    gdc_wait()  # until here the launch may run beside the one that writes the table
    first = gl.load(first_ptr)
    last = gl.load(last_ptr)
    step = 0
    count = 0
    item = draw(items_ptr, cursor_ptr, first, last, ITEM)
    kind = field(item, 0)
    while kind >= 0:
        send(item, count, mail, sent, read)
        count += 1
        following = item
        if kind == COMBINE:
            following = draw(items_ptr, cursor_ptr, first, last, ITEM)
        else:
            expert = field(item, 1)
            row = field(item, 2)
            body = field(item, 3)
            tail = field(item, 4)
            column = field(item, 5)
            body_ok = body_row < body
            tail_ok = tail_row < tail
            if kind == GATE_UP:
                choice = gl.load(choice_of_row_ptr + row + body_row, mask=body_ok, other=0)
                body_at = x_ptr + (choice // TOP_K).to(gl.int64)[:, None] * H + inner[None, :]
                choice = gl.load(choice_of_row_ptr + row + body + tail_row, mask=tail_ok, other=0)
                tail_at = x_ptr + (choice // TOP_K).to(gl.int64)[:, None] * H + inner[None, :]
                blocks = H // BK
            else:
                wait_for(tile_ready_ptr + field(item, 6), (INTER + HALF - 1) // HALF)
                body_at = h_ptr + (row + body_row).to(gl.int64)[:, None] * INTER + inner[None, :]
                tail_at = (
                    h_ptr + (row + body + tail_row).to(gl.int64)[:, None] * INTER + inner[None, :]
                )
                blocks = INTER // BK
            # The next item is drawn while the stages just filled keep the consumers busy.
            ahead = gl.minimum(blocks, STAGES)
            step = fill_stages(
                step, 0, ahead, kind, w13_desc, w2_desc, expert, column,
                body_at, body_ok[:, None], body, tail_at, tail_ok[:, None], tail,
                x_s, tail_s, w_s, full, empty, STAGES, TAIL_STAGES, TAIL_IS_M,
            )  # fmt: skip
            following = draw(items_ptr, cursor_ptr, first, last, ITEM)
            step = fill_stages(
                step, ahead, blocks, kind, w13_desc, w2_desc, expert, column,
                body_at, body_ok[:, None], body, tail_at, tail_ok[:, None], tail,
                x_s, tail_s, w_s, full, empty, STAGES, TAIL_STAGES, TAIL_IS_M,
            )  # fmt: skip
        item = following
        kind = field(item, 0)
    send(item, count, mail, sent, read)
