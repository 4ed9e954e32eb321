"""The kernel of `handover`: two partitions that share nothing, or eight integers."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

EMPTY = gl.constexpr(0)
AWAITED = gl.constexpr(1)
SPOKEN_FOR = gl.constexpr(2)
HASTY = gl.constexpr(3)
GIVERS = gl.constexpr(128)


@gluon.jit
def take(given_ptr, taken_ptr, mail, sent, KIND: gl.constexpr):
    LAYOUT: gl.constexpr = gl.BlockedLayout([8], [32], [4], [0])
    at = gl.arange(0, 8, layout=LAYOUT)
    if KIND == EMPTY:
        item = gl.load(given_ptr + at)
    else:
        if KIND != HASTY:
            mbarrier.wait(sent, 0)
        item = mail.load(LAYOUT)
    gl.store(taken_ptr + at, item)


@gluon.jit
def give(given_ptr, mail, sent, KIND: gl.constexpr):
    LAYOUT: gl.constexpr = gl.BlockedLayout([8], [32], [4], [0])
    at = gl.arange(0, 8, layout=LAYOUT)
    item = gl.load(given_ptr + at)
    if KIND == EMPTY:
        gl.store(given_ptr + at, item)
    else:
        mail.store(item)
        gl.thread_barrier()
        mbarrier.arrive(sent)
        if KIND != SPOKEN_FOR:
            async_copy.mbarrier_arrive(sent, increment_count=False)


@gluon.jit
def hand_over(given_ptr, taken_ptr, KIND: gl.constexpr):
    """Copy eight int32 from `given_ptr` to `taken_ptr`, by way of shared memory unless EMPTY."""
    mail = gl.allocate_shared_memory(gl.int32, [1, 8], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    sent = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(sent.index(0), count=1 if KIND == SPOKEN_FOR else GIVERS + 1)
    fence_async_shared()
    gl.thread_barrier()
    gl.warp_specialize(
        [
            (take, (given_ptr, taken_ptr, mail.index(0), sent.index(0), KIND)),
            (give, (given_ptr, mail.index(0), sent.index(0), KIND)),
        ],
        [4],
        [48],
    )
