"""Items: their fields, and how they pass from the table to the producers, on to the consumers."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

GATE_UP = gl.constexpr(0)
DOWN = gl.constexpr(1)
COMBINE = gl.constexpr(2)
FIELDS = gl.constexpr(8)

BK = gl.constexpr(64)
# Output columns of a layer-0 tile; its weights are HALF gate and HALF up rows.
HALF = gl.constexpr(128)
# Weight rows of every tile, output columns of a layer-1 tile.
WIDE = gl.constexpr(256)
QUARTER = gl.constexpr(64)
MAIL = gl.constexpr(2)
# Threads of the two partitions.
PRODUCERS = gl.constexpr(128)
CONSUMERS = gl.constexpr(256)
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
def hand_over(barrier):
    """Arrive for this partition, after everything its threads have read and stored.

    One arrival speaks for all that have met. Each thread arrives too: a race detector follows
    arrivals, and does not see that the meeting let one thread speak for the others.
    """
    gl.thread_barrier()
    mbarrier.arrive(barrier)
    async_copy.mbarrier_arrive(barrier, increment_count=False)


@gluon.jit
def send(item, count, mail, sent, read):
    """Hand item number `count` to the consumers."""
    slot = count % MAIL
    mbarrier.wait(read.index(slot), ((count // MAIL) & 1) ^ 1)
    mail.index(slot).store(item)
    hand_over(sent.index(slot))


@gluon.jit
def receive(count, mail, sent, read, layout: gl.constexpr):
    """Wait for item number `count`."""
    slot = count % MAIL
    mbarrier.wait(sent.index(slot), (count // MAIL) & 1)
    item = mail.index(slot).load(layout)
    hand_over(read.index(slot))
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
