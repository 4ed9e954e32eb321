"""Two kernels that turn top-k ids into the schedule table, without a host synchronisation.

`count_kernel` counts each block of choices by expert and ranks every choice inside its block; few
choices do without it. `place_kernel` sums those counts to offsets, scatters every choice to its
row, and writes the tiles and, for the persistent kernel, its work items. Both are stable: rows of
an expert keep the order of their tokens, so the table, and every bit computed from it, is the same
on each run.

A tile is 4 integers {expert, first row, body rows, tail rows}. An item is 8:

    index   GATE_UP = 0, DOWN = 1          COMBINE = 2
    0       kind                           kind
    1       expert                         tokens
    2       first row                      first token
    3       body rows                      0
    4       tail rows                      tiles that must be done first
    5       first column                   first column
    6       tile                           0
    7       chunk                          chunk
"""

from __future__ import annotations

import triton
import triton.language as tl

GATE_UP = tl.constexpr(0)
DOWN = tl.constexpr(1)
COMBINE = tl.constexpr(2)
TILE_FIELDS = tl.constexpr(4)
ITEM_FIELDS = tl.constexpr(8)


@triton.jit(do_not_specialize=["choices"])
def count_kernel(
    ids_ptr, counts_ptr, ranks_ptr, choices, experts,
    EXPERTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count one block of choices by expert, and rank each among its block's earlier equals."""
    block = tl.program_id(0)
    mine = block * BLOCK + tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + mine, mask=mine < choices, other=-1).to(tl.int32)
    valid = (ids >= 0) & (ids < experts)
    counts = tl.histogram(tl.where(valid, ids, 0), EXPERTS, mask=valid)
    tl.store(counts_ptr + block * EXPERTS + tl.arange(0, EXPERTS), counts)

    # One uniform load an earlier choice: cheaper than a BLOCK x BLOCK comparison, whose operands
    # would have to change layout through shared memory.
    ranks = tl.zeros((BLOCK,), tl.int32)
    lane = tl.arange(0, BLOCK)
    for other in tl.range(0, BLOCK - 1, loop_unroll_factor=8):
        at = block * BLOCK + other
        earlier = tl.load(ids_ptr + at, mask=at < choices, other=-1).to(tl.int32)
        ranks += ((earlier == ids) & (other < lane)).to(tl.int32)
    tl.store(ranks_ptr + mine, ranks, mask=mine < choices)


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
def chunk_of(column_tile, C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr):
    """The chunk of an output column tile: chunks begin at tiles 0, C0, C1 and C2."""
    return (
        (column_tile >= C0).to(tl.int32)
        + (column_tile >= C1).to(tl.int32)
        + (column_tile >= C2).to(tl.int32)
    )


@triton.jit
def edge(chunk, C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, N2: tl.constexpr):
    """The column tile at which a chunk begins; chunk 4 begins at the end."""
    return tl.where(
        chunk <= 0, 0,
        tl.where(chunk == 1, C0, tl.where(chunk == 2, C1, tl.where(chunk == 3, C2, N2))),
    )  # fmt: skip


@triton.jit
def chunk_start(
    chunk, tiles, combines, N1: tl.constexpr,
    C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, N2: tl.constexpr,
):  # fmt: skip
    """Items before a chunk: all of layer 0, earlier layer-1 tiles, combines up to two chunks back.

    `combines` is the number of combine items of one column tile.
    """
    return (
        tiles * N1
        + tiles * edge(chunk, C0, C1, C2, N2)
        + combines * edge(chunk - 1, C0, C1, C2, N2)
    )


@triton.jit
def grouped(tile, column, tiles, columns, GROUP: tl.constexpr):
    """Position of a tile's column: GROUP tiles go through all columns together, tiles innermost."""
    first = tile // GROUP * GROUP
    return first * columns + column * tl.minimum(GROUP, tiles - first) + tile - first


@triton.jit
def lead_of(chunk, downs, lead, C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr,
            N2: tl.constexpr):  # fmt: skip
    """Layer-1 tiles of a chunk that come before the first combination spread into it.

    In the last chunk all do: earlier combinations then fill the wait for its last tiles.
    """
    return tl.where(edge(chunk + 1, C0, C1, C2, N2) == N2, downs, lead)


@triton.jit
def store_item(
    items_ptr, position, held, kind, expert, row, body, tail, column, tile, chunk
):  # fmt: skip
    """Store eight fields side by side; each a vector like `position`."""
    index = tl.arange(0, ITEM_FIELDS)[None, :]
    low = tl.where(index == 0, kind[:, None], tl.where(index == 1, expert[:, None], row[:, None]))
    low = tl.where(index == 3, body[:, None], low)
    high = tl.where(index == 4, tail[:, None], column[:, None])
    high = tl.where(index == 6, tile[:, None], tl.where(index == 7, chunk[:, None], high))
    tl.store(
        items_ptr + position[:, None] * ITEM_FIELDS + index,
        tl.where(index < 4, low, high),
        mask=held[:, None],
    )


@triton.jit
def merged_down(index, downs, combines, lead):
    """Position in its chunk of layer-1 tile `index`, with the previous chunk's combines spread in.

    The first `lead` tiles come alone; the combines are spread evenly over the others.
    """
    late = tl.maximum(index - lead, 0).to(tl.int64)
    spread = tl.maximum(downs - lead, 1).to(tl.int64)
    before = tl.minimum(((late + 1) * combines + spread - 1) // spread - 1, combines)
    return index + tl.where(index < lead, 0, tl.maximum(before, 0)).to(tl.int32)


@triton.jit
def merged_combine(index, downs, combines, lead):
    """Position in its chunk of combine item `index` of the previous chunk."""
    first = tl.minimum(downs, lead)
    spread = tl.maximum(downs - lead, 0).to(tl.int64)
    return first + index + (((index + 1).to(tl.int64) * spread) // combines).to(tl.int32)


@triton.jit(do_not_specialize=["choices", "blocks", "tokens", "lead"])
def place_kernel(
    ids_ptr, counts_ptr, ranks_ptr,
    offsets_ptr, choice_of_row_ptr, row_of_choice_ptr,
    tiles_ptr, items_ptr, totals_ptr, signals_ptr,
    choices, blocks, tokens, experts, signals, lead,
    EXPERTS: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr, ALL: tl.constexpr,
    BM: tl.constexpr, BT: tl.constexpr, WIDE: tl.constexpr,
    ITEMS: tl.constexpr, N1: tl.constexpr, WIDTH1: tl.constexpr, N2: tl.constexpr,
    WIDTH2: tl.constexpr, C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr,
    COMBINE_TOKENS: tl.constexpr, GROUP: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Scatter one block of choices; all programs, more than blocks, share the tiles and items."""
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    expert = tl.arange(0, EXPERTS)

    mine = program * BLOCK + tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + mine, mask=mine < choices, other=-1).to(tl.int32)
    valid = (ids >= 0) & (ids < experts)

    # Offsets: rows of an expert before this block, and in all
    before = tl.zeros((EXPERTS,), tl.int32)
    rows = tl.zeros((EXPERTS,), tl.int32)
    if ALL:
        # Few choices: every program counts all of them, and no launch has to come before.
        others = tl.arange(0, ALL)
        other_ids = tl.load(ids_ptr + others, mask=others < choices, other=-1).to(tl.int32)
        counted = (other_ids >= 0) & (other_ids < experts)
        rows = tl.histogram(tl.where(counted, other_ids, 0), EXPERTS, mask=counted)
        earlier = (other_ids[None, :] == ids[:, None]) & (others[None, :] < mine[:, None])
        rank = tl.sum(earlier.to(tl.int32), axis=1)
    else:
        for start in range(0, blocks, BLOCKS):
            block = start + tl.arange(0, BLOCKS)
            part = tl.load(
                counts_ptr + block[:, None] * EXPERTS + expert[None, :],
                mask=(block < blocks)[:, None] & (expert < experts)[None, :],
                other=0,
            )
            rows += tl.sum(part, axis=0)
            before += tl.sum(tl.where((block < program)[:, None], part, 0), axis=0)
        rank = tl.load(ranks_ptr + mine, mask=mine < choices, other=0)
    ends = tl.cumsum(rows, axis=0)
    firsts = ends - rows
    if program == 0:
        tl.store(offsets_ptr + 1 + expert, ends, mask=expert < experts)
        tl.store(offsets_ptr, 0)

    # Rows: every choice of this block to its place
    row = tl.gather(firsts + before, tl.where(valid, ids, 0), axis=0) + rank
    tl.store(choice_of_row_ptr + row, mine, mask=valid)
    tl.store(row_of_choice_ptr + mine, tl.where(valid, row, -1), mask=mine < choices)

    # Tiles
    cut, tails = tiles_of(rows, BM, BT, WIDE)
    first_tile = tl.cumsum(cut, axis=0) - cut
    tiles = tl.sum(cut, axis=0)
    most = tl.max(cut, axis=0)
    per_tile = 1
    if ITEMS:
        per_tile = N1 + N2
    combines = (tokens + COMBINE_TOKENS - 1) // COMBINE_TOKENS
    for step in range(program, most * per_tile, programs):
        j = step // per_tile
        column = step % per_tile
        tile = first_tile + j
        held = j < cut
        first, body, tail = tile_rows(rows, j, cut, tails, BM, BT)
        if column == 0:
            at = tiles_ptr + tile * TILE_FIELDS
            tl.store(at, expert, mask=held)
            tl.store(at + 1, firsts + first, mask=held)
            tl.store(at + 2, body, mask=held)
            tl.store(at + 3, tail, mask=held)
        if ITEMS:
            kind = (column >= N1).to(tl.int32)
            n = column - kind * N1
            chunk = chunk_of(n, C0, C1, C2)
            left = edge(chunk, C0, C1, C2, N2)
            wide = edge(chunk + 1, C0, C1, C2, N2) - left
            previous = (left - edge(chunk - 1, C0, C1, C2, N2)) * combines
            downs = tiles * wide
            index = grouped(tile, n - left, tiles, wide, GROUP)
            position = tl.where(
                kind == 0,
                grouped(tile, n, tiles, N1, GROUP),
                chunk_start(chunk, tiles, combines, N1, C0, C1, C2, N2)
                + merged_down(index, downs, previous, lead_of(chunk, downs, lead, C0, C1, C2, N2)),
            )
            same = expert * 0
            store_item(
                items_ptr, position, held, same + kind, expert, firsts + first, body, tail,
                same + n * tl.where(kind == 0, WIDTH1, WIDTH2), tile,
                same + tl.where(kind == 0, 0, chunk),
            )  # fmt: skip

    if ITEMS:
        # Combine items: one for COMBINE_TOKENS tokens and one column tile
        for start in range(program * WRITE, combines * N2, programs * WRITE):
            item = start + tl.arange(0, WRITE)
            held = item < combines * N2
            n = item // combines
            chunk = chunk_of(n, C0, C1, C2)
            left = edge(chunk, C0, C1, C2, N2)
            right = edge(chunk + 1, C0, C1, C2, N2)
            following = edge(chunk + 2, C0, C1, C2, N2)
            downs = tiles * (following - right)
            position = chunk_start(chunk + 1, tiles, combines, N1, C0, C1, C2, N2) + merged_combine(
                item - left * combines,
                downs,
                tl.maximum(right - left, 1) * combines,
                lead_of(chunk + 1, downs, lead, C0, C1, C2, N2),
            )
            same = item * 0
            store_item(
                items_ptr, position, held, same + COMBINE, same + COMBINE_TOKENS,
                item % combines * COMBINE_TOKENS, same, tiles * (right - left), n * WIDTH2,
                same, chunk,
            )  # fmt: skip
        for start in range(program * WRITE, signals, programs * WRITE):
            slot = start + tl.arange(0, WRITE)
            tl.store(signals_ptr + slot, slot * 0, mask=slot < signals)

    if program == 0:
        tl.store(totals_ptr, tiles)
        tl.store(totals_ptr + 1, 0)
        if ITEMS:
            tl.store(totals_ptr + 2, tiles * N1)
            tl.store(totals_ptr + 3, tiles * (N1 + N2))
            tl.store(totals_ptr + 4, tiles * (N1 + N2) + combines * N2)
