"""The schedule table of one layer call, built on the device from the top-k ids."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
import triton

from kernels.backend import BACKEND, Backend
from kernels.moe import schedule_kernels as kernels
from kernels.moe.plan import Cut, Work

TILE_FIELDS = 4
ITEM_FIELDS = 8


@dataclass(frozen=True)
class Schedule:
    """Device tensors of one table; all int32 but the counts.

    Attributes:
        offsets: (E + 1,) first row of each expert, rows sorted by expert.
        choice_of_row: (T * k,) the choice t * k + j in a row; rows past offsets[E] are not written.
        row_of_choice: (T * k,) the row of choice t * k + j, or -1 for an id outside [0, E).
        tiles: (capacity, 4) {expert, first row, body rows, tail rows}; totals[0] are written.
        items: (capacity, 8), see `schedule_kernels`; totals[4] are written.
        totals: (5,) tiles; where the items of layer 0, of layer 1 and of the combination begin;
            and where all items end.
        counts: (blocks, experts rounded up) int16, rows of each expert in a block of choices.
        ranks: (T * k,) how many choices before it in its block go to the same expert; written, and
            read, only where there are more than FEW_CHOICES.
        signals: counters of the persistent kernel, zero when the table is built: 8 cursors, 8
            counts of finished tiles by part, one count of finished columns a tile.
    """

    tokens: int
    top_k: int
    experts: int
    cut: Cut
    work: Work | None
    offsets: torch.Tensor
    choice_of_row: torch.Tensor
    row_of_choice: torch.Tensor
    tiles: torch.Tensor
    items: torch.Tensor
    totals: torch.Tensor
    signals: torch.Tensor
    counts: torch.Tensor
    ranks: torch.Tensor

    def on_cpu(self) -> Schedule:
        """A copy that the CPU can read; waits for the device."""
        held = {item.name: getattr(self, item.name) for item in fields(self)}
        return Schedule(
            **{
                name: value.cpu() if isinstance(value, torch.Tensor) else value
                for name, value in held.items()
            }
        )

    @property
    def choices(self) -> int:
        return self.tokens * self.top_k

    @property
    def tile_capacity(self) -> int:
        return self.tiles.shape[0]

    @property
    def part_done(self) -> torch.Tensor:
        return self.signals[8:]

    @property
    def tile_ready(self) -> torch.Tensor:
        return self.signals[16:]


# Programs that place rows and write items; more than the blocks of a small call, which would
# otherwise write their items one after another. Interpreted programs run in turn: few are enough.
PLACING_PROGRAMS = 3 if BACKEND is Backend.INTERPRETER else 128

# Up to so many choices every placing program counts all of them itself: one launch instead of two.
FEW_CHOICES = 512

# 16-bit counts that all programs together may read: 8 MiB, of which an H200 has 50 in its L2.
COUNTS_READ = 1 << 22

# Pairs of counts that a placing program holds at once: 32 a thread of four warps.
PAIRS_HELD = 4096

# With fewer choices a pair's sums fit 16 bits each.
PACKED_CHOICES = 1 << 16

# Items that a placing program writes at once.
WRITTEN = 64


def block_of(choices: int, experts: int) -> int:
    """Choices a program ranks: few, for speed, but every program reads all blocks' counts."""
    for block in (128, 256, 512):
        if triton.cdiv(choices, block) ** 2 * experts <= COUNTS_READ:
            return block
    return 1024


def tiles_near(work: Work | None) -> int:
    """A power of two, and at least the tiles that WRITTEN items in a row can belong to."""
    if work is None:
        return WRITTEN
    return triton.next_power_of_2(WRITTEN // (work.columns1 + work.columns2) + 2)


def allocate(
    tokens: int,
    top_k: int,
    experts: int,
    cut: Cut,
    work: Work | None = None,
    device: str | torch.device = "cpu",
) -> Schedule:
    """Reserve the tensors of a table; reusable for any routing of this size."""
    choices = tokens * top_k
    blocks = triton.cdiv(choices, block_of(choices, experts))
    capacity = cut.tile_capacity(choices, experts)
    items = work.item_capacity(capacity, tokens) if work else 0

    def ints(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.int32, device=device)

    return Schedule(
        tokens,
        top_k,
        experts,
        cut,
        work,
        offsets=ints(experts + 1),
        choice_of_row=ints(choices),
        row_of_choice=ints(choices),
        tiles=ints(capacity, TILE_FIELDS),
        items=ints(items, ITEM_FIELDS),
        totals=ints(5),
        signals=ints(16 + capacity),
        counts=torch.empty(
            (blocks, max(2, triton.next_power_of_2(experts))), dtype=torch.int16, device=device
        ),
        ranks=ints(choices),
    )


def build(schedule: Schedule, ids: torch.Tensor) -> Schedule:
    """Fill the table for `ids` (T, k), int32 or int64, contiguous; ids outside [0, E) are dropped.

    Two launches on the current stream, one for few choices, and no synchronisation, so it may be
    captured in a graph.
    """
    if ids.shape != (schedule.tokens, schedule.top_k):
        raise ValueError(
            f"ids have shape {tuple(ids.shape)}, the table is for"
            f" ({schedule.tokens}, {schedule.top_k})"
        )
    if not ids.is_contiguous():
        raise ValueError("ids are not contiguous; pass ids.contiguous()")
    choices, blocks = schedule.choices, schedule.counts.shape[0]
    experts = schedule.counts.shape[1]
    block = block_of(choices, schedule.experts)
    every = 0
    if not choices:
        schedule.offsets.zero_()
        schedule.totals.zero_()
        schedule.signals.zero_()
        return schedule

    if choices <= FEW_CHOICES:
        block = 16
        blocks = triton.cdiv(choices, block)
        every = max(32, triton.next_power_of_2(choices))
    else:
        kernels.count_kernel[(blocks,)](
            ids, schedule.counts, schedule.ranks, choices, schedule.experts,
            EXPERTS=experts, BLOCK=block, num_warps=4,
        )  # fmt: skip
    cut = schedule.cut
    work = schedule.work or Work(0, 0, 0, 0)
    kernels.place_kernel[(max(blocks, PLACING_PROGRAMS),)](
        ids, schedule.counts.view(torch.int32), schedule.ranks,
        schedule.offsets, schedule.choice_of_row, schedule.row_of_choice,
        schedule.tiles, schedule.items, schedule.totals, schedule.signals,
        choices, blocks, schedule.tokens, schedule.experts, schedule.signals.shape[0],
        EXPERTS=experts, BLOCK=block,
        BLOCKS=max(1, min(triton.next_power_of_2(blocks), PAIRS_HELD * 2 // experts)), ALL=every,
        PACKED=choices < PACKED_CHOICES,
        BM=cut.body, BT=cut.tail, WIDE=cut.wide,
        ITEMS=schedule.work is not None,
        N1=work.columns1, WIDTH1=work.width1, N2=work.columns2, WIDTH2=work.width2,
        EARLY=work.early,
        COMBINE_TOKENS=work.combine_tokens, GROUP=work.group,
        WRITE=WRITTEN, SPAN=tiles_near(schedule.work),
        OVERLAPPED=schedule.work is not None and BACKEND is Backend.GPU, num_warps=4,
    )  # fmt: skip
    return schedule
