"""Where a tile's rows and a work item's place in the order are: arithmetic of the schedule table.

Everything here works on vectors of tiles, columns or items, and on any backend.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tiles_of(rows, BM: tl.constexpr, BT: tl.constexpr, WIDE: tl.constexpr):
    """How `rows` rows are cut: the number of tiles, and how many of the last ones carry a tail.

    A tile is up to BM body rows, or BM body rows and a tail of up to BT. WIDE fills tails wherever
    that saves a tile; otherwise only a remainder of at most BT rows becomes a tail. Up to BT rows
    alone are one tile with a tail and no body. BT = 0 means no tails.
    """
    if BT == 0:
        return (rows + BM - 1) // BM, rows * 0
    if WIDE:
        tiles = (rows + BM + BT - 1) // (BM + BT)
        tails = tl.maximum(rows - tiles * BM + BT - 1, 0) // BT
    else:
        rest = rows % BM
        short = (rest > 0) & (rest <= BT)
        tiles = tl.where(short, tl.maximum(rows // BM, 1), (rows + BM - 1) // BM)
        tails = short.to(tl.int32)
    return tl.where(rows > 0, tiles, 0), tl.where((rows > BT) & (tiles > 0), tails, 0)


@triton.jit
def tile_rows(rows, j, tiles, tails, BM: tl.constexpr, BT: tl.constexpr):
    """First row (within its expert), body rows and tail rows of tile j."""
    plain = tiles - tails
    carried = tl.maximum(j - plain, 0)
    first = tl.minimum(j, plain) * BM + carried * (BM + BT)
    left = rows - first
    body = tl.minimum(left, BM)
    tail = tl.where(j >= plain, tl.minimum(left - body, BT), 0)
    alone = rows <= BT
    return first, tl.where(alone, 0, body), tl.where(alone, rows, tail)


@triton.jit
def grouped(tile, column, tiles, columns, GROUP: tl.constexpr):
    """Position of a tile's column: GROUP tiles go through all columns together, tiles innermost."""
    first = tile // GROUP * GROUP
    return first * columns + column * tl.minimum(GROUP, tiles - first) + tile - first


@triton.jit
def down_position(
    tile, column, tiles, EARLY: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """Position among layer-1 items: all tiles of the EARLY columns, then those of the late ones."""
    late = column >= EARLY
    return tl.where(
        late,
        tiles * EARLY + grouped(tile, column - EARLY, tiles, COLUMNS - EARLY, GROUP),
        grouped(tile, column, tiles, EARLY, GROUP),
    )
