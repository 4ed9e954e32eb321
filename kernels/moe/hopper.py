"""The Hopper fast path: the whole layer in one persistent, warp-specialised Gluon kernel.

Every program takes items from the schedule table (see `schedule_kernels`) until none is left. Four
producer warps fill a ring of shared-memory stages, eight consumer warps multiply and store:

    stage       activations (BM, 64)   gathered row by row with cp.async, missing rows zero-filled
                weights (256, 64)      one bulk tensor copy; layer 0 takes gate and up rows together
                tail (BT, 64)          rows that ride on the body's weights, on a ring of its own
    full[s]     128 cp.async arrivals and one arrival that expects the weights' bytes
    empty[s]    one arrival, by the consumers, when their reads of the stage are complete
    mail        the item itself, from the producers, which draw it, to the consumers

An item may read what other programs wrote: layer 1 its tile's hidden rows, a combination all of its
chunk. Writers count up `tile_ready` and `chunk_done` with release, readers wait with acquire. Items
are drawn from one counter in table order and an item only waits for earlier ones, so whoever holds
the earliest unfinished item can run: no deadlock, whatever else occupies the device. Activations of
both layers go through cp.async, in the same proxy as the stores, so no proxy fence is needed.

Tails. Rows left over by 128-row bodies would cost a whole tile each. Here up to BT of them share
the body's weights in shared memory. TAIL_IS_M: tail rows are the M operand of their own wgmma (64
rows). Otherwise weights are M and the tail rows N, 16 or 32 of them; beside a body the weights then
go through registers, since a wgmma with so few columns would wait for M from shared memory.

Preconditions: sm_90, bfloat16 or float16, H and INTER multiples of 64, contiguous weights.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

GATE_UP = gl.constexpr(0)
DOWN = gl.constexpr(1)
COMBINE = gl.constexpr(2)
FIELDS = gl.constexpr(8)

BK = gl.constexpr(64)
HALF = gl.constexpr(
    128
)  # output columns of a layer-0 tile; its weights are HALF gate, HALF up rows
WIDE = gl.constexpr(256)  # weight rows of every tile, output columns of a layer-1 tile
QUARTER = gl.constexpr(64)
MAIL = gl.constexpr(2)
PRODUCERS = gl.constexpr(128)
COMBINE_TOKENS = gl.constexpr(32)


@gluon.jit
def field(item, index: gl.constexpr):
    """One integer of an item; every thread holds all eight, so this is a register select."""
    at = gl.arange(0, FIELDS, layout=item.type.layout)
    return gl.sum(gl.where(at == index, item, 0), 0)


@gluon.jit
def draw(items_ptr, cursor_ptr, first, last, layout: gl.constexpr):
    """Take the next item of the table; its kind is -1 when there is none left."""
    index = first + gl.atomic_add(cursor_ptr, 1, sem="relaxed", scope="gpu")
    at = gl.arange(0, FIELDS, layout=layout)
    return gl.load(
        items_ptr + index.to(gl.int64) * FIELDS + at,
        mask=(at >= 0) & (index < last),
        other=-1,
    )


@gluon.jit
def send(item, count, mail, sent, read):
    """Hand item number `count` to the consumers."""
    slot = count % MAIL
    mbarrier.wait(read.index(slot), ((count // MAIL) & 1) ^ 1)
    mail.index(slot).store(item)
    gl.thread_barrier()
    mbarrier.arrive(sent.index(slot))


@gluon.jit
def receive(count, mail, sent, read, layout: gl.constexpr):
    """Wait for item number `count`."""
    slot = count % MAIL
    mbarrier.wait(sent.index(slot), (count // MAIL) & 1)
    item = mail.index(slot).load(layout)
    gl.thread_barrier()
    mbarrier.arrive(read.index(slot))
    return item


@gluon.jit
def wait_for(count_ptr, target):
    """Wait until others have counted to `target`; what they wrote before is then visible."""
    while gl.atomic_add(count_ptr, 0, sem="acquire", scope="gpu") < target:
        pass
    gl.thread_barrier()


@gluon.jit
def announce(count_ptr):
    """Count one up, after everything this partition's threads have stored."""
    gl.thread_barrier()
    gl.atomic_add(count_ptr, 1, sem="release", scope="gpu")


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
    tile_ready_ptr, chunk_done_ptr, trace_ptr,
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
        chunk = field(item, 7)
        column = field(item, 5)
        if kind == COMBINE:
            token = field(item, 2)
            last = gl.minimum(token + field(item, 1), tokens)
            for t in range(token, last, COMBINE_TOKENS):
                combine(
                    y_ptr, out_ptr, row_of_choice_ptr, weights_ptr, chunk_done_ptr + chunk,
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
                announce(chunk_done_ptr + chunk)
        stamp(trace_ptr, count, 1, kind, TRACE)
        count += 1
        item = receive(count, mail, sent, read, ITEM)
        kind = field(item, 0)


@gluon.jit(
    do_not_specialize=["tokens"],
    do_not_specialize_on_alignment=["first_ptr", "last_ptr", "cursor_ptr"],
)
def sm90_moe_kernel(
    w13_desc, w2_desc, x_ptr, h_ptr, y_ptr, out_ptr,
    choice_of_row_ptr, row_of_choice_ptr, weights_ptr, tokens,
    items_ptr, first_ptr, last_ptr, cursor_ptr, tile_ready_ptr, chunk_done_ptr, trace_ptr,
    H: gl.constexpr, INTER: gl.constexpr, TOP_K: gl.constexpr,
    BM: gl.constexpr, BT: gl.constexpr, TAIL_IS_M: gl.constexpr,
    STAGES: gl.constexpr, TAIL_STAGES: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr,
    BODY: gl.constexpr, TAIL: gl.constexpr, BODY_1: gl.constexpr, BODY_2: gl.constexpr,
    TAIL_1: gl.constexpr, TAIL_2: gl.constexpr, ACTIVATE: gl.constexpr, TRACE: gl.constexpr,
):  # fmt: skip
    """Run every item of the table. One program an SM, 8 warps and 4 more for the producers.

    x (T, H), h (rows, INTER), y (rows, H), out (T, H), all contiguous and of one 16-bit dtype;
    weights (T, k) float32. The items run are those from *first_ptr up to *last_ptr. `trace_ptr`
    receives {begin, end, kind + 1} of TRACE items a program, 0 for none. ACTIVATE off leaves SiLU
    out (gate + up is stored): the layer-0 GEMM alone.
    """
    gl.static_assert(TAIL_STAGES <= STAGES)
    dtype: gl.constexpr = x_ptr.dtype.element_ty
    TILE: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    COUNT: gl.constexpr = mbarrier.MBarrierLayout()
    FLAT: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])

    # Shared memory
    w_s = gl.allocate_shared_memory(dtype, [STAGES, WIDE, BK], TILE)
    x_s = gl.allocate_shared_memory(dtype, [STAGES, BM, BK], TILE)
    tail_s = gl.allocate_shared_memory(dtype, [TAIL_STAGES, BT, BK], TILE)
    mail = gl.allocate_shared_memory(gl.int32, [MAIL, FIELDS], FLAT)

    # Barriers
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], COUNT)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], COUNT)
    sent = gl.allocate_shared_memory(gl.int64, [MAIL, 1], COUNT)
    read = gl.allocate_shared_memory(gl.int64, [MAIL, 1], COUNT)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=PRODUCERS + 1)
        mbarrier.init(empty.index(i), count=1)
    for i in gl.static_range(MAIL):
        mbarrier.init(sent.index(i), count=1)
        mbarrier.init(read.index(i), count=1)
    fence_async_shared()
    gl.thread_barrier()

    gl.warp_specialize(
        [
            (
                consume,
                (
                    h_ptr, y_ptr, out_ptr, row_of_choice_ptr, weights_ptr, tokens,
                    tile_ready_ptr, chunk_done_ptr, trace_ptr,
                    x_s, tail_s, w_s, full, empty, mail, sent, read,
                    H, INTER, TOP_K, BM, BT, STAGES, TAIL_STAGES, TAIL_IS_M,
                    BODY, TAIL, BODY_1, BODY_2, TAIL_1, TAIL_2, ACTIVATE, TRACE,
                ),
            ),
            (
                produce,
                (
                    w13_desc, w2_desc, x_ptr, h_ptr, choice_of_row_ptr,
                    items_ptr, first_ptr, last_ptr, cursor_ptr, tile_ready_ptr,
                    x_s, tail_s, w_s, full, empty, mail, sent, read,
                    H, INTER, TOP_K, BM, BT, STAGES, TAIL_STAGES, TAIL_IS_M,
                ),
            ),
        ],
        [4],
        [PRODUCER_REGISTERS],
    )  # fmt: skip
