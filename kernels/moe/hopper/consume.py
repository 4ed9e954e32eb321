"""The consumers: eight warps that multiply what the stages hold, and finish and store tiles."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.moe.hopper.combine import combine
from kernels.moe.hopper.epilogue import (
    activate,
    activate_transposed,
    store_rows,
    store_transposed,
)
from kernels.moe.hopper.items import (
    BK,
    COMBINE,
    COMBINE_TOKENS,
    FIELDS,
    GATE_UP,
    WIDE,
    announce,
    field,
    receive,
)


@gluon.jit
def stamp(trace_ptr, count, edge: gl.constexpr, kind, TRACE: gl.constexpr):
    """Note when an item began (edge 0) or ended (edge 1), in nanoseconds, and what it was."""
    if TRACE:
        now = gl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=gl.int64, is_pure=False, pack=1
        )
        at = trace_ptr + (gl.program_id(0) * TRACE + count) * 3
        if count < TRACE:
            gl.store(at + edge, now)
            gl.store(at + 2, kind.to(gl.int64) + 1)


@gluon.jit
def consume(
    h_ptr, y_ptr, out_ptr, row_of_choice_ptr, weights_ptr, tokens,
    tile_ready_ptr, part_done_ptr, trace_ptr,
    x_s, tail_s, w_s, full, empty, mail, sent, read,
    H: gl.constexpr, INTER: gl.constexpr, TOP_K: gl.constexpr, BM: gl.constexpr, BT: gl.constexpr,
    STAGES: gl.constexpr, TAIL_STAGES: gl.constexpr, TAIL_IS_M: gl.constexpr,
    BODY: gl.constexpr, TAIL: gl.constexpr, BODY_1: gl.constexpr, BODY_2: gl.constexpr,
    TAIL_1: gl.constexpr, TAIL_2: gl.constexpr, ACTIVATE: gl.constexpr, TRACE: gl.constexpr,
):  # fmt: skip
    """Consumer partition, 8 warps: multiply what the stages hold, finish and store each tile."""
    ITEM: gl.constexpr = gl.BlockedLayout([FIELDS], [32], [8], [0])
    step = 0
    count = 0
    item = receive(0, mail, sent, read, ITEM)
    kind = field(item, 0)
    while kind >= 0:
        stamp(trace_ptr, count, 0, kind, TRACE)
        late = field(item, 7)
        column = field(item, 5)
        if kind == COMBINE:
            token = field(item, 2)
            last = gl.minimum(token + field(item, 1), tokens)
            for t in range(token, last, COMBINE_TOKENS):
                combine(
                    y_ptr, out_ptr, row_of_choice_ptr, weights_ptr, part_done_ptr + late,
                    field(item, 4), t, tokens, column, H, TOP_K,
                )  # fmt: skip
        else:
            row = field(item, 2)
            body = field(item, 3)
            tail = field(item, 4)
            blocks = gl.where(kind == GATE_UP, H // BK, INTER // BK)
            acc = gl.zeros((BM, WIDE), gl.float32, layout=BODY)
            if TAIL_IS_M:
                tail_acc = gl.zeros((BT, WIDE), gl.float32, layout=TAIL)
            else:
                tail_acc = gl.zeros((WIDE, BT), gl.float32, layout=TAIL)

            # Main loop: one step stays in flight while the one before it is released
            if tail == 0:
                for k in range(blocks):
                    stage = step % STAGES
                    mbarrier.wait(full.index(stage), (step // STAGES) & 1)
                    fence_async_shared()
                    w = w_s.index(stage)
                    acc = warpgroup_mma(x_s.index(stage), w.permute((1, 0)), acc, is_async=True)
                    acc = warpgroup_mma_wait(1, deps=(acc,))
                    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k > 0)
                    step += 1
                acc = warpgroup_mma_wait(0, deps=(acc,))
            elif body == 0:
                for k in range(blocks):
                    stage = step % STAGES
                    mbarrier.wait(full.index(stage), (step // STAGES) & 1)
                    fence_async_shared()
                    w = w_s.index(stage)
                    rest = tail_s.index(step % TAIL_STAGES)
                    if TAIL_IS_M:
                        tail_acc = warpgroup_mma(rest, w.permute((1, 0)), tail_acc, is_async=True)
                    else:
                        tail_acc = warpgroup_mma(w, rest.permute((1, 0)), tail_acc, is_async=True)
                    tail_acc = warpgroup_mma_wait(1, deps=(tail_acc,))
                    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k > 0)
                    step += 1
                tail_acc = warpgroup_mma_wait(0, deps=(tail_acc,))
            elif TAIL_IS_M:
                for k in range(blocks):
                    stage = step % STAGES
                    mbarrier.wait(full.index(stage), (step // STAGES) & 1)
                    fence_async_shared()
                    w = w_s.index(stage)
                    rest = tail_s.index(step % TAIL_STAGES)
                    acc = warpgroup_mma(x_s.index(stage), w.permute((1, 0)), acc, is_async=True)
                    tail_acc = warpgroup_mma(rest, w.permute((1, 0)), tail_acc, is_async=True)
                    acc, tail_acc = warpgroup_mma_wait(2, deps=(acc, tail_acc))
                    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k > 0)
                    step += 1
                acc, tail_acc = warpgroup_mma_wait(0, deps=(acc, tail_acc))
            else:
                for k in range(blocks):
                    stage = step % STAGES
                    mbarrier.wait(full.index(stage), (step // STAGES) & 1)
                    fence_async_shared()
                    w = w_s.index(stage)
                    rest = tail_s.index(step % TAIL_STAGES)
                    # Read while the step before still multiplies. The tail goes first, so that the
                    # wait for it leaves the body in flight and these registers free.
                    held = w.load(gl.DotOperandLayout(0, TAIL, 2))
                    tail_acc = warpgroup_mma(held, rest.permute((1, 0)), tail_acc, is_async=True)
                    acc = warpgroup_mma(x_s.index(stage), w.permute((1, 0)), acc, is_async=True)
                    acc, tail_acc, held = warpgroup_mma_wait(1, deps=(acc, tail_acc, held))
                    mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k > 0)
                    step += 1
                acc, tail_acc = warpgroup_mma_wait(0, deps=(acc, tail_acc))
            mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES))

            # Epilogue
            if kind == GATE_UP:
                if body > 0:
                    hidden = activate(acc, BM, TAIL_IS_M, ACTIVATE)
                    store_rows(h_ptr, INTER, row, body, column, hidden, BODY_1)
                if tail > 0:
                    if TAIL_IS_M:
                        hidden = activate(tail_acc, BT, TAIL_IS_M, ACTIVATE)
                        store_rows(h_ptr, INTER, row + body, tail, column, hidden, TAIL_1)
                    else:
                        hidden = activate_transposed(tail_acc, BT, ACTIVATE)
                        store_transposed(h_ptr, INTER, row + body, tail, column, hidden, TAIL_1)
                announce(tile_ready_ptr + field(item, 6))
            else:
                if body > 0:
                    store_rows(y_ptr, H, row, body, column, acc, BODY_2)
                if tail > 0:
                    if TAIL_IS_M:
                        store_rows(y_ptr, H, row + body, tail, column, tail_acc, TAIL_2)
                    else:
                        store_transposed(y_ptr, H, row + body, tail, column, tail_acc, TAIL_2)
                announce(part_done_ptr + late)
        stamp(trace_ptr, count, 1, kind, TRACE)
        count += 1
        item = receive(count, mail, sent, read, ITEM)
        kind = field(item, 0)
