"""The Hopper fast path: the whole layer in one persistent, warp-specialised Gluon kernel.

Every program takes items from the schedule table (see `schedule_kernels`) until none is left. Four
producer warps fill a ring of shared-memory stages, eight consumer warps multiply and store:

    stage       activations (BM, 64)   gathered row by row with cp.async, missing rows zero-filled
                weights (256, 64)      one bulk tensor copy; layer 0 takes gate and up rows together
                tail (BT, 64)          rows that ride on the body's weights, on a ring of its own
    full[s]     128 cp.async arrivals and one arrival that expects the weights' bytes
    empty[s]    one arrival, by the consumers, when their reads of the stage are complete
    mail        the item itself, from the producers, which draw it, to the consumers
    sent, read  one arrival for the partition that gives it on, and one of each of its threads

The launch may begin while the one that writes the table still runs: the producers wait for its end,
and the consumers for an item.

An item may read what other programs wrote: layer 1 its tile's hidden rows, a combination all early
or all late columns of y. Writers count up `tile_ready` and `part_done` with release, readers wait
with acquire. Items are drawn from one counter in table order and an item only waits for earlier
ones, so whoever holds the earliest unfinished item can run: no deadlock, whatever else occupies the
device. Activations of both layers go through cp.async, in the same proxy as the stores, so no proxy
fence is needed. The rings and their phases are searched through every order of events in
tests/kernels/moe/ring_model.py.

Tails. Rows left over by 128-row bodies would cost a whole tile each. Here up to BT of them share
the body's weights in shared memory. TAIL_IS_M: tail rows are the M operand of their own wgmma (64
rows). Otherwise weights are M and the tail rows N, 16 or 32 of them; beside a body the weights then
go through registers, since a wgmma with so few columns would wait for M from shared memory.

Preconditions: sm_90, bfloat16 or float16, H and INTER multiples of 64, contiguous weights.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from kernels.moe.hopper.consume import consume
from kernels.moe.hopper.items import BK, CONSUMERS, FIELDS, MAIL, PRODUCERS, WIDE
from kernels.moe.hopper.produce import produce


@gluon.jit(
    do_not_specialize=["tokens"],
    do_not_specialize_on_alignment=["first_ptr", "last_ptr", "cursor_ptr"],
)
def sm90_moe_kernel(
    w13_desc, w2_desc, x_ptr, h_ptr, y_ptr, out_ptr,
    choice_of_row_ptr, row_of_choice_ptr, weights_ptr, tokens,
    items_ptr, first_ptr, last_ptr, cursor_ptr, tile_ready_ptr, part_done_ptr, trace_ptr,
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
        mbarrier.init(sent.index(i), count=PRODUCERS + 1)
        mbarrier.init(read.index(i), count=CONSUMERS + 1)
    fence_async_shared()
    gl.thread_barrier()

    gl.warp_specialize(
        [
            (
                consume,
                (
                    h_ptr, y_ptr, out_ptr, row_of_choice_ptr, weights_ptr, tokens,
                    tile_ready_ptr, part_done_ptr, trace_ptr,
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
