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
    7       late (layer 1), else 0         late
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

from kernels.moe.item_order import down_position, grouped, tile_rows, tiles_of
from kernels.moe.ranking import earlier_equals, load_ids

GATE_UP = tl.constexpr(0)
DOWN = tl.constexpr(1)
COMBINE = tl.constexpr(2)
TILE_FIELDS = tl.constexpr(4)
ITEM_FIELDS = tl.constexpr(8)
# Choices that are ranked at once, each compared with all.
RANKED = tl.constexpr(128)


@triton.jit(do_not_specialize=["choices"])
def count_kernel(
    ids_ptr, counts_ptr, ranks_ptr, choices, experts,
    EXPERTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count one block of choices by expert, and rank each among its block's earlier equals."""
    block = tl.program_id(0)
    lane = tl.arange(0, RANKED)
    counts = tl.zeros((EXPERTS,), tl.int32)
    for start in tl.static_range(0, BLOCK, RANKED):
        mine = block * BLOCK + start + lane
        ids = load_ids(ids_ptr, mine, choices, experts)
        valid = (ids >= 0) & (ids < experts)
        ranks = earlier_equals(ids, lane, ids, lane)
        if start > 0:
            ranks += tl.gather(counts, tl.where(valid, ids, 0), axis=0)
        tl.store(ranks_ptr + mine, ranks, mask=mine < choices)
        counts += tl.histogram(tl.where(valid, ids, 0), EXPERTS, mask=valid)
    tl.store(counts_ptr + block * EXPERTS + tl.arange(0, EXPERTS), counts)


@triton.jit
def sums_of(
    words_ptr, blocks, program,
    EXPERTS: tl.constexpr, BLOCKS: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Rows of every expert in all blocks, and in those before this program's, (EXPERTS,) each.

    `words_ptr` points to pairs of 16-bit counts. Both sums go through the program as halves of an
    int64; PACKED, for less than 2^16 choices, keeps the pairs in one as well. Every program begins
    with another block, so as not to ask one part of the L2 all at once; little is seen of it.
    """
    pair = tl.arange(0, EXPERTS // 2)
    low = tl.zeros((BLOCKS, EXPERTS // 2), tl.int64)
    high = low
    for start in tl.range(0, blocks, BLOCKS, loop_unroll_factor=2):
        nth = start + tl.arange(0, BLOCKS)
        block = program % blocks + nth
        block = tl.where(block >= blocks, block - blocks, block)
        words = tl.load(
            words_ptr + block[:, None] * (EXPERTS // 2) + pair[None, :],
            mask=(nth < blocks)[:, None],
            other=0,
        )
        earlier = tl.where((block < program)[:, None], words, 0)
        if PACKED:
            low += halves(words, earlier)
        else:
            low += halves(words & 0xFFFF, earlier & 0xFFFF)
            high += halves(words >> 16, earlier >> 16)
    low = tl.sum(low, axis=0)
    if PACKED:
        return (
            tl.interleave((low & 0xFFFF).to(tl.int32), ((low >> 16) & 0xFFFF).to(tl.int32)),
            tl.interleave(((low >> 32) & 0xFFFF).to(tl.int32), ((low >> 48) & 0xFFFF).to(tl.int32)),
        )
    high = tl.sum(high, axis=0)
    return (
        tl.interleave(low.to(tl.int32), high.to(tl.int32)),
        tl.interleave((low >> 32).to(tl.int32), (high >> 32).to(tl.int32)),
    )


@triton.jit
def halves(low, high):
    """Two int32, `low` not negative, as one int64."""
    return low.to(tl.int64) + (high.to(tl.int64) << 32)


@triton.jit
def store_item(
    items_ptr, position, held, kind, expert, row, body, tail, column, tile, late
):  # fmt: skip
    """Store eight fields side by side; each a vector like `position`."""
    even = tl.join(tl.join(kind, tail), tl.join(row, tile))
    odd = tl.join(tl.join(expert, column), tl.join(body, late))
    item = tl.reshape(tl.join(even, odd), (position.shape[0], ITEM_FIELDS))
    index = tl.arange(0, ITEM_FIELDS)[None, :]
    tl.store(items_ptr + position[:, None] * ITEM_FIELDS + index, item, mask=held[:, None])


@triton.jit(do_not_specialize=["choices", "blocks", "tokens"])
def place_kernel(
    ids_ptr, words_ptr, ranks_ptr,
    offsets_ptr, choice_of_row_ptr, row_of_choice_ptr,
    tiles_ptr, items_ptr, totals_ptr, signals_ptr,
    choices, blocks, tokens, experts, signals,
    EXPERTS: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr, ALL: tl.constexpr,
    PACKED: tl.constexpr,
    BM: tl.constexpr, BT: tl.constexpr, WIDE: tl.constexpr,
    ITEMS: tl.constexpr, N1: tl.constexpr, WIDTH1: tl.constexpr, N2: tl.constexpr,
    WIDTH2: tl.constexpr, EARLY: tl.constexpr,
    COMBINE_TOKENS: tl.constexpr, GROUP: tl.constexpr, WRITE: tl.constexpr, SPAN: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):  # fmt: skip
    """Scatter one block of choices; all programs, more than blocks, share the tiles and items.

    OVERLAPPED lets the next launch begin once all programs run; it has to wait for their end itself
    before it reads what they write (programmatic dependent launch, sm_90 and newer).
    """
    if OVERLAPPED:
        gdc_launch_dependents()
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    expert = tl.arange(0, EXPERTS)

    mine = program * BLOCK + tl.arange(0, BLOCK)
    ids = load_ids(ids_ptr, mine, choices, experts)
    valid = (ids >= 0) & (ids < experts)

    # Rows of every expert, and their offsets; tiles go through the same scan.
    if ALL:
        # Few choices: every program counts all of them, and no launch has to come before.
        other = tl.arange(0, ALL)
        others = load_ids(ids_ptr, other, choices, experts)
        counted = (others >= 0) & (others < experts)
        rows = tl.histogram(tl.where(counted, others, 0), EXPERTS, mask=counted)
        before = tl.zeros((EXPERTS,), tl.int32)
        rank = earlier_equals(others, other, ids, mine)
    else:
        rank = tl.load(ranks_ptr + mine, mask=mine < choices, other=0)
        rows, before = sums_of(words_ptr, blocks, program, EXPERTS, BLOCKS, PACKED)
    cut, _ = tiles_of(rows, BM, BT, WIDE)
    ends = tl.cumsum(halves(rows, cut), axis=0)
    firsts = ends.to(tl.int32) - rows
    tile_ends = (ends >> 32).to(tl.int32)
    tiles = tl.max(tile_ends, axis=0)
    if program == 0:
        tl.store(offsets_ptr + 1 + expert, ends.to(tl.int32), mask=expert < experts)
        tl.store(offsets_ptr, 0)

    row = tl.gather(firsts + before, tl.where(valid, ids, 0), axis=0) + rank
    tl.store(choice_of_row_ptr + row, mine, mask=valid)
    tl.store(row_of_choice_ptr + mine, tl.where(valid, row, -1), mask=mine < choices)

    # Tiles, and the items of both layers: WRITE items at once, of SPAN tiles or fewer.
    columns = N1 + N2 if ITEMS else 1
    combines = (tokens + COMBINE_TOKENS - 1) // COMBINE_TOKENS
    for start in range(program * WRITE, tiles * columns, programs * WRITE):
        near = start // columns + tl.arange(0, SPAN)
        passed = (tile_ends[:, None] <= near[None, :]).to(tl.int32)
        owner = tl.minimum(tl.sum(passed, axis=0), EXPERTS - 1)
        own_rows = tl.gather(rows, owner, axis=0)
        own_end = tl.gather(ends, owner, axis=0)
        own_cut, tails = tiles_of(own_rows, BM, BT, WIDE)
        j = near - ((own_end >> 32).to(tl.int32) - own_cut)
        first, body, tail = tile_rows(own_rows, j, own_cut, tails, BM, BT)
        first += own_end.to(tl.int32) - own_rows
        begins = (near * columns >= start) & (near * columns < start + WRITE) & (near < tiles)
        record = tiles_ptr + near * TILE_FIELDS
        tl.store(record, owner, mask=begins)
        tl.store(record + 1, first, mask=begins)
        tl.store(record + 2, body, mask=begins)
        tl.store(record + 3, tail, mask=begins)
        if ITEMS:
            at = start + tl.arange(0, WRITE)
            tile = at // columns
            column = at % columns
            nth = tile - start // columns
            place = tl.gather(halves(owner, first), nth, axis=0)
            size = tl.gather(halves(body, tail), nth, axis=0)
            kind = (column >= N1).to(tl.int32)
            n = column - kind * N1
            position = tl.where(
                kind == 0,
                grouped(tile, n, tiles, N1, GROUP),
                tiles * N1 + down_position(tile, n, tiles, EARLY, N2, GROUP),
            )
            store_item(
                items_ptr, position, tile < tiles, kind,
                place.to(tl.int32), (place >> 32).to(tl.int32),
                size.to(tl.int32), (size >> 32).to(tl.int32),
                n * tl.where(kind == 0, WIDTH1, WIDTH2), tile, kind * (n >= EARLY).to(tl.int32),
            )  # fmt: skip

    if ITEMS:
        # Combine items: one for COMBINE_TOKENS tokens and one column tile. The last programs begin,
        # since the first ones have written the items above.
        backward = (programs - 1 - program) * WRITE
        for start in range(backward, combines * N2, programs * WRITE):
            item = start + tl.arange(0, WRITE)
            n = item // combines
            same = item * 0
            store_item(
                items_ptr, tiles * (N1 + N2) + item, item < combines * N2,
                same + COMBINE, same + COMBINE_TOKENS, item % combines * COMBINE_TOKENS, same,
                tiles * tl.where(n >= EARLY, N2 - EARLY, EARLY), n * WIDTH2, same,
                (n >= EARLY).to(tl.int32),
            )  # fmt: skip
        for start in range(backward, signals, programs * WRITE):
            slot = start + tl.arange(0, WRITE)
            tl.store(signals_ptr + slot, slot * 0, mask=slot < signals)

    if program == 0:
        tl.store(totals_ptr, tiles)
        tl.store(totals_ptr + 1, 0)
        if ITEMS:
            tl.store(totals_ptr + 2, tiles * N1)
            tl.store(totals_ptr + 3, tiles * (N1 + N2))
            tl.store(totals_ptr + 4, tiles * (N1 + N2) + combines * N2)
