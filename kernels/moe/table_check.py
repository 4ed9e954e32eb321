"""Prove on the CPU that a schedule table does all the work, once, in bounds and in a safe order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch

from kernels.moe.plan import Work
from kernels.moe.schedule import Schedule

GATE_UP, DOWN, COMBINE = range(3)
PARTS = ("early", "late")


def check_rows(schedule: Schedule, ids: torch.Tensor) -> list[str]:
    """Every valid choice has one row; rows are sorted by expert and keep the tokens' order."""
    return list(_row_problems(schedule, ids.cpu().flatten().tolist()))


def check_tiles(schedule: Schedule) -> list[str]:
    """Tiles cover every row of every expert once and keep to the cut's sizes."""
    return list(_tile_problems(schedule))


def check_items(schedule: Schedule) -> list[str]:
    """Items do each tile's columns once and never come before what they wait for."""
    return list(_item_problems(schedule))


def _row_problems(schedule: Schedule, ids: list[int]) -> Iterator[str]:
    valid = [at for at, expert in enumerate(ids) if 0 <= expert < schedule.experts]
    expected = sorted(valid, key=lambda at: ids[at])
    offsets = schedule.offsets.tolist()
    if offsets[0] != 0 or offsets[-1] != len(valid):
        yield f"offsets run from {offsets[0]} to {offsets[-1]}, there are {len(valid)} choices"
        return
    chosen = Counter(ids[at] for at in valid)
    for expert in range(schedule.experts):
        held = offsets[expert + 1] - offsets[expert]
        if held != chosen[expert]:
            yield f"expert {expert} has {held} rows, not {chosen[expert]}"
    rows = schedule.row_of_choice.tolist()
    choices = schedule.choice_of_row.tolist()
    for row, at in enumerate(expected):
        if rows[at] != row:
            yield f"choice {at} is in row {rows[at]}, not {row}"
        if choices[row] != at:
            yield f"row {row} holds choice {choices[row]}, not {at}"
    for at in set(range(len(ids))) - set(valid):
        if rows[at] != -1:
            yield f"dropped choice {at} (expert {ids[at]}) has row {rows[at]}"


def _tile_problems(schedule: Schedule) -> Iterator[str]:
    offsets = schedule.offsets.tolist()
    count = int(schedule.totals[0])
    if not 0 <= count <= schedule.tile_capacity:
        yield f"{count} tiles in a table for {schedule.tile_capacity}"
        return
    covered = [0] * offsets[-1]
    for tile, (expert, first, body, tail) in enumerate(schedule.tiles[:count].tolist()):
        name = f"tile {tile} (expert {expert}, rows {first} + {body} + {tail})"
        if not 0 <= expert < schedule.experts:
            yield f"{name}: no such expert"
            continue
        if body > schedule.cut.body or tail > schedule.cut.tail or body < 0 or tail < 0:
            yield f"{name}: outside the cut {schedule.cut}"
        if tail and body not in (0, schedule.cut.body):
            yield f"{name}: a tail follows a body that is not full"
        if body + tail == 0:
            yield f"{name}: empty"
        if first < offsets[expert] or first + body + tail > offsets[expert + 1]:
            yield f"{name}: outside its expert's rows {offsets[expert]}..{offsets[expert + 1]}"
            continue
        for row in range(first, first + body + tail):
            covered[row] += 1
    for row, times in enumerate(covered):
        if times != 1:
            yield f"row {row} is covered {times} times"


def _item_problems(schedule: Schedule) -> Iterator[str]:
    work = schedule.work
    if work is None:
        return
    tiles = int(schedule.totals[0])
    items = schedule.items[: int(schedule.totals[4])].tolist()
    table = schedule.tiles[:tiles].tolist()
    if schedule.signals.any():
        yield "signals are not zero"
    done1: dict[int, set[int]] = {tile: set() for tile in range(tiles)}
    done2: dict[int, set[int]] = {tile: set() for tile in range(tiles)}
    part_done = [0, 0]
    wanted = {(t, n * work.width2) for t in range(schedule.tokens) for n in range(work.columns2)}
    combined: Counter[tuple[int, int]] = Counter()
    begins = [0, tiles * work.columns1, tiles * (work.columns1 + work.columns2)]
    if schedule.totals[1:4].tolist() != begins:
        yield f"the parts begin at items {schedule.totals[1:4].tolist()}, not {begins}"
    for at, (kind, *fields) in enumerate(items):
        if kind == COMBINE:
            tokens, token, zero, target, column, _, late = fields
            if part_done[late] != target or zero != 0:
                yield f"item {at} wants {target} {PARTS[late]} tiles, {part_done[late]} come first"
            if _late(work, column) != late:
                yield f"item {at}: column {column} is not one of the {PARTS[late]} ones"
            if (token, column) not in wanted:
                yield f"item {at} combines token {token}, column {column}, which are not there"
            # The last item's tokens may reach past the last one; the kernel masks those.
            combined.update((t, column) for t in range(token, min(token + tokens, schedule.tokens)))
        elif kind in (GATE_UP, DOWN):
            expert, first, body, tail, column, tile, late = fields
            if not 0 <= tile < tiles or table[tile] != [expert, first, body, tail]:
                yield f"item {at}: not tile {tile}"
                continue
            done, width = (done1, work.width1) if kind == GATE_UP else (done2, work.width2)
            if column in done[tile]:
                yield f"item {at}: column {column} of tile {tile} a second time"
            done[tile].add(column)
            if column % width:
                yield f"item {at}: column {column} is no multiple of {width}"
            if kind == DOWN:
                if late != _late(work, column):
                    yield f"item {at}: column {column} is not one of the {PARTS[late]} ones"
                part_done[late] += 1
                if len(done1[tile]) != work.columns1:
                    yield f"item {at}: tile {tile} has {len(done1[tile])} layer-0 columns so far"
        else:
            yield f"item {at}: kind {kind}"
    for tile in range(tiles):
        if done1[tile] != {n * work.width1 for n in range(work.columns1)}:
            yield f"tile {tile}: layer 0 columns {sorted(done1[tile])}"
        if done2[tile] != {n * work.width2 for n in range(work.columns2)}:
            yield f"tile {tile}: layer 1 columns {sorted(done2[tile])}"
    if not wanted <= combined.keys():
        yield f"{len(wanted - combined.keys())} (token, column) pairs are never combined"
    twice = sum(1 for times in combined.values() if times > 1)
    if twice:
        yield f"{twice} (token, column) pairs are combined more than once"


def _late(work: Work, column: int) -> int:
    return int(column // work.width2 >= work.early)
