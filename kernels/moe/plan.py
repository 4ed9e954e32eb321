"""What a schedule table is made for: how rows become tiles, and in which order they are done."""

from __future__ import annotations

from dataclasses import dataclass


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

    Layer 0 has `columns1` column tiles of `width1` columns, layer 1 `columns2` of `width2`, the
    last `late` of which come after all others. Then come the combinations: a column tile's waits
    for all of layer 1 in its part, the early or the late one, so that early columns are combined
    while the last tiles of late ones are still under way. `group` tiles go through a part's
    columns together.
    """

    columns1: int
    width1: int
    columns2: int
    width2: int
    late: int = 1
    combine_tokens: int = 32
    group: int = 1

    @property
    def early(self) -> int:
        """Column tiles of layer 1 that are not late."""
        return max(self.columns2 - self.late, 0)

    def item_capacity(self, tile_capacity: int, tokens: int) -> int:
        combines = -(-tokens // self.combine_tokens) * self.columns2
        return tile_capacity * (self.columns1 + self.columns2) + combines
