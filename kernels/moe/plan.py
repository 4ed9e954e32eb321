"""What a schedule table is made for: how rows become tiles, and in which order they are done."""

from __future__ import annotations

from dataclasses import dataclass

CHUNKS = 4


@dataclass(frozen=True)
class Cut:
    """How an expert's rows become tiles: bodies of up to `body` rows, tails of up to `tail`.

    `wide` fills tails wherever that saves a tile, not only with a remainder.
    """

    body: int = 128
    tail: int = 0
    wide: bool = False

    def tile_capacity(self, choices: int, experts: int) -> int:
        """Tiles that any routing of `choices` choices over `experts` experts fits in."""
        return choices // self.body + min(experts, choices)


@dataclass(frozen=True)
class Work:
    """What the persistent kernel does with the tiles, and in which order.

    Layer 0 has `columns1` column tiles of `width1` columns, layer 1 `columns2` of `width2`. Layer 1
    goes by chunks of column tiles; `edges` are the tiles where chunks 1, 2 and 3 begin. The
    combination of a chunk is spread over the next chunk, after its first `lead` tiles, and comes
    after all tiles of the last one. `group` tiles go through a chunk's columns together.
    """

    columns1: int
    width1: int
    columns2: int
    width2: int
    edges: tuple[int, int, int]
    combine_tokens: int = 32
    lead: int = 300
    group: int = 1

    def item_capacity(self, tile_capacity: int, tokens: int) -> int:
        combines = -(-tokens // self.combine_tokens) * self.columns2
        return tile_capacity * (self.columns1 + self.columns2) + combines


def chunk_edges(columns: int) -> tuple[int, int, int]:
    """Halve what is left twice, and keep one column tile for the end: a wide first chunk hides
    layer 0's end, a narrow last one leaves little to combine when no tile is left to hide it."""
    first = (columns + 1) // 2
    second = first + (columns - first + 1) // 2
    return first, second, columns - 1 if second < columns - 1 else columns
