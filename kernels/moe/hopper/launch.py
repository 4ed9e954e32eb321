"""Layouts, descriptors and the launch of the Hopper kernel."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.moe.hopper.kernel import sm90_moe_kernel
from kernels.moe.schedule import Schedule

WEIGHT_ROWS = 256
COLUMNS_1 = 128
COLUMNS_2 = 256
# 227 KiB a block on sm_90. Beside the stages: barriers, the mail, 8 KiB of layout-change scratch.
SHARED_BYTES = 227 * 1024
RESERVED_BYTES = 8192 + 512
# A row of a stage: 64 inner columns of a 16-bit type.
ROW_BYTES = 64 * 2


class Part(enum.Enum):
    """Items to run: where they begin and end in `Schedule.totals`. Each part has its own cursor."""

    ALL = (1, 4)
    LAYER_0 = (1, 2)
    LAYER_1 = (2, 3)
    COMBINE = (3, 4)


@dataclass(frozen=True)
class HopperTile:
    """One compiled variant of the kernel.

    Attributes:
        body: rows of a tile's body, 64 or 128.
        tail: rows that ride along: 64 as the M operand, or 16 or 32 as the N operand of a wgmma.
        stages: depth of the ring; that of the tails is as deep where there is room.
        producer_registers: of the 65536 per SM; the consumers get the rest.
    """

    body: int
    tail: int
    stages: int
    producer_registers: int

    @property
    def tail_is_m(self) -> bool:
        return self.tail == 64

    @property
    def tail_stages(self) -> int:
        """As many as the stages leave room for, at most one for each of them."""
        left = SHARED_BYTES - RESERVED_BYTES - self.stages * (self.body + WEIGHT_ROWS) * ROW_BYTES
        return max(1, min(self.stages, left // (self.tail * ROW_BYTES)))

    @property
    def shared_bytes(self) -> int:
        rows = self.stages * (self.body + WEIGHT_ROWS) + self.tail_stages * self.tail
        return rows * ROW_BYTES + RESERVED_BYTES

    def problem(self) -> str | None:
        """Why this variant cannot run, or None."""
        if self.body not in (64, 128) or self.tail not in (16, 32, 64):
            return f"body {self.body} is not 64 or 128, or tail {self.tail} not 16, 32 or 64"
        if min(self.stages, self.tail_stages) < 2:
            # A stage is released while the next one multiplies, which would never be loaded.
            return f"{self.stages} stages, {self.tail_stages} of them for tails: two are needed"
        if self.shared_bytes > SHARED_BYTES:
            return f"{self.shared_bytes} bytes of shared memory, the device has {SHARED_BYTES}"
        return None


@dataclass(frozen=True)
class Layouts:
    """Register layouts of the accumulators, and of the tiles as they are stored."""

    body: gl.NVMMADistributedLayout
    tail: gl.NVMMADistributedLayout
    body_1: gl.DistributedLinearLayout
    body_2: gl.DistributedLinearLayout
    tail_1: gl.DistributedLinearLayout
    tail_2: gl.DistributedLinearLayout


def layouts(tile: HopperTile) -> Layouts:
    """Stored layouts give each thread 8 adjacent columns without leaving its warp's rows."""
    narrow, wide = COLUMNS_1, COLUMNS_2
    if tile.body == 128:
        body = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, wide, 16])
        body_1, body_2 = _stored(128, narrow, 128, 0), _stored(128, wide, 256, 0)
    elif tile.tail_is_m:
        body = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, narrow, 16])
        body_1, body_2 = _stored(64, narrow, 64, 64), _stored(64, wide, 128, 128)
    else:
        # Two warp groups take 64 columns each, twice, so that gate and up meet in one thread.
        body = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, 64, 16])
        body_1, body_2 = _stored(64, narrow, 64, 64), _stored(64, wide, 64, 64)
    if tile.tail_is_m:
        tail = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, narrow, 16])
        tail_1, tail_2 = _stored(64, narrow, 64, 64), _stored(64, wide, 128, 128)
    else:
        tail = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, tile.tail, 16])
        tail_1, tail_2 = _stored_transposed(narrow, tile.tail), _stored_transposed(wide, tile.tail)
    return Layouts(body, tail, body_1, body_2, tail_1, tail_2)


def _stored(rows: int, columns: int, run: int, group_column: int) -> gl.DistributedLinearLayout:
    """(rows, columns): a warp group holds runs of `run` columns, the second `group_column` later.

    Eight threads side by side store the 128 bytes of a memory line.
    With `group_column` 0 the second warp group takes rows 64 to 127 instead.
    """
    registers = [[0, 1], [0, 2], [0, 4], [4, 0], [8, 0]]
    registers += [[0, c] for c in _powers(64, run)]
    registers += [[0, c] for c in _powers(run * 2 if group_column else run, columns)]
    lanes = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]]
    warps = [[16, 0], [32, 0], [0, group_column] if group_column else [64, 0]]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [rows, columns])


def _stored_transposed(weight_rows: int, tail: int) -> gl.DistributedLinearLayout:
    """(weight rows, tail rows): 8 adjacent weight rows a thread, two threads side by side."""
    registers = [[1, 0], [2, 0], [4, 0]] + [[0, r] for r in _powers(16, tail)]
    registers += [[r, 0] for r in _powers(128, weight_rows)]
    lanes = [[8, 0], [0, 1], [0, 2], [0, 4], [0, 8]]
    warps = [[16, 0], [32, 0], [64, 0]]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [weight_rows, tail])


def _powers(low: int, below: int) -> list[int]:
    return [1 << bit for bit in range(low.bit_length() - 1, below.bit_length() - 1)]


def descriptors(
    w13: torch.Tensor, w2: torch.Tensor, tile: HopperTile
) -> tuple[TensorDescriptor, TensorDescriptor]:
    """Tensor maps that fetch the 256 weight rows of a tile's step in one copy.

    w13 (E, 2 * I, H) is seen as gate and up side by side: one box holds the same rows of both. The
    copy engine returns zeros past an edge, so the last column tile needs no care.
    """
    experts, inter2, hidden = w13.shape
    inter = inter2 // 2
    if tile.tail_is_m:
        first = TensorDescriptor(
            w13,
            [experts, inter // 64, 2, 64, hidden],
            [inter2 * hidden, 64 * hidden, inter * hidden, hidden, 1],
            [1, 2, 2, 64, 64],
            gl.NVMMASharedLayout(128, 16, 5),
        )
    else:
        first = TensorDescriptor(
            w13,
            [experts, 2, inter, hidden],
            [inter2 * hidden, inter * hidden, hidden, 1],
            [1, 2, 128, 64],
            gl.NVMMASharedLayout(128, 16, 4),
        )
    second = TensorDescriptor(
        w2,
        [experts, hidden, inter],
        [hidden * inter, inter, 1],
        [1, 256, 64],
        gl.NVMMASharedLayout(128, 16, 3),
    )
    return first, second


def launch(
    tile: HopperTile,
    maps: tuple[TensorDescriptor, TensorDescriptor],
    schedule: Schedule,
    x: torch.Tensor,
    h: torch.Tensor,
    y: torch.Tensor,
    out: torch.Tensor,
    weights: torch.Tensor,
    programs: int,
    part: Part = Part.ALL,
    activate: bool = True,
    trace: torch.Tensor | None = None,
) -> None:
    """Run the table, or a part of it, on `programs` SMs.

    A part alone needs a table without late columns. `trace` is (programs, items, 3) int64, zeroed.
    """
    shape = layouts(tile)
    first, last = part.value
    inter, hidden = h.shape[1], x.shape[1]
    sm90_moe_kernel[(programs,)](
        *maps, x, h, y, out,
        schedule.choice_of_row, schedule.row_of_choice, weights, schedule.tokens,
        schedule.items, schedule.totals[first:], schedule.totals[last:],
        schedule.signals[first:], schedule.tile_ready, schedule.part_done,
        h if trace is None else trace,
        hidden, inter, schedule.top_k,
        tile.body, tile.tail, tile.tail_is_m,
        tile.stages, tile.tail_stages, tile.producer_registers,
        shape.body, shape.tail, shape.body_1, shape.body_2, shape.tail_1, shape.tail_2,
        activate, 0 if trace is None else trace.shape[1],
        num_warps=8, launch_pdl=True,
    )  # fmt: skip
