"""CSV and TSV: rows by key columns, numbers by the tolerance of their column."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.diff.blob import Blob
from orchestrator.diff.lines.align import align
from orchestrator.diff.numeric import written
from orchestrator.diff.numeric.tolerance import Tolerance
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record, Status
from orchestrator.diff.refusal import Unreadable
from orchestrator.spec.compare import CompareRule

_DELIMITERS = ",\t;|"
Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A header and rows of as many cells."""

    columns: Row
    rows: tuple[Row, ...]


def compare(pair: Pair) -> Record:
    """Compare two tables: schema, then rows, then cells."""
    a, b = pair.read(lambda blob: read_table(blob, pair.limits.table_bytes))
    pair.read(lambda blob: _require_keys(a if blob is pair.a else b, pair.rule.keys))
    shared = [name for name in a.columns if name in b.columns]
    found = _Found(pair.limits.locations)
    found.columns(a.columns, b.columns)
    cells = _Cells(a, b, shared, pair.rule)
    for row_a, row_b, name in _row_pairs(a, b, shared, pair):
        if row_a is None or row_b is None:
            found.row(name, row_a, row_b)
        else:
            cells.compare(name, row_a, row_b, found)
    reordered = found.status == "equal" and [c for c in b.columns if c in shared] != shared
    return pair.record(
        found.status,
        metrics={
            "rows_a": len(a.rows),
            "rows_b": len(b.rows),
            "added_rows": found.added_rows,
            "removed_rows": found.removed_rows,
            "changed_rows": found.changed_rows,
            "changed_cells": found.changed_cells,
            "cells_within": found.cells_within,
            "added_columns": found.added_columns,
            "removed_columns": found.removed_columns,
            "max_abs": found.max_abs,
            "max_rel": found.max_rel,
        },
        locations=found.locations,
        more=found.more,
        note="the columns stand in another order" if reordered else "",
        tolerance=_tolerance_words(pair.rule),
    )


def check(pair: Pair) -> None:
    read_table(pair.a, pair.limits.table_bytes)


def read_table(blob: Blob, most_bytes: int) -> Table:
    """A whole table; the first row is its header.

    Raises:
        Unreadable: not UTF-8, no header, a column twice, or a row with more or fewer cells.
    """
    try:
        text = blob.read(most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start}") from error
    first = text.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=first.count)
    rows = _parsed(text, delimiter)
    columns = next(rows, ())
    if not columns:
        raise Unreadable("is empty: no header")
    if len(set(columns)) != len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise Unreadable(f"has the column `{twice}` twice")
    body = []
    for number, row in enumerate(rows, 2):
        if len(row) != len(columns):
            raise Unreadable(f"row {number} has {len(row)} cells, the header {len(columns)}")
        body.append(row)
    return Table(columns, tuple(body))


def _parsed(text: str, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield tuple(cell.strip() for cell in row)
    except csv.Error as error:
        raise Unreadable(f"is not CSV: {error} at line {reader.line_num}") from error


def _require_keys(table: Table, keys: Sequence[str]) -> None:
    missing = [key for key in keys if key not in table.columns]
    if missing:
        raise Unreadable(f"has no key column `{missing[0]}`")
    if keys:
        places = [table.columns.index(key) for key in keys]
        seen: dict[Row, int] = {}
        for number, row in enumerate(table.rows, 2):
            name = tuple(row[place] for place in places)
            if name in seen:
                raise Unreadable(f"rows {seen[name]} and {number} have the key {', '.join(name)}")
            seen[name] = number


def _row_pairs(
    a: Table, b: Table, shared: Sequence[str], pair: Pair
) -> Iterator[tuple[Row | None, Row | None, str]]:
    """Rows that belong together: by their key, else by their order, gaps closed by equal rows."""
    keys = pair.rule.keys
    if keys:
        named_a, named_b = _by_key(a, keys), _by_key(b, keys)
        for name in [*named_a, *(name for name in named_b if name not in named_a)]:
            yield named_a.get(name), named_b.get(name), f"[{name}]"
        return
    if len(a.rows) == len(b.rows):
        for number, (one, two) in enumerate(zip(a.rows, b.rows, strict=True), 2):
            yield one, two, f"row {number}"
        return
    places = [[t.columns.index(name) for name in shared] for t in (a, b)]
    sides = [
        [tuple(row[place] for place in where) for row in table.rows]
        for table, where in zip((a, b), places, strict=True)
    ]
    for span in align(sides[0], sides[1]):
        for offset in range(max(span.a2 - span.a1, span.b2 - span.b1)):
            at_a, at_b = span.a1 + offset, span.b1 + offset
            here_a = a.rows[at_a] if at_a < span.a2 else None
            here_b = b.rows[at_b] if at_b < span.b2 else None
            number = (at_b if here_a is None else at_a) + 2
            yield here_a, here_b, f"row {number}"


def _by_key(table: Table, keys: Sequence[str]) -> dict[str, Row]:
    places = [(key, table.columns.index(key)) for key in keys]
    return {", ".join(f"{key}={row[place]}" for key, place in places): row for row in table.rows}


@dataclass
class _Found:
    """What the comparison came upon so far."""

    most_locations: int
    added_rows: int = 0
    removed_rows: int = 0
    changed_rows: int = 0
    changed_cells: int = 0
    cells_within: int = 0
    added_columns: int = 0
    removed_columns: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    locations: list[Location] = field(default_factory=list)
    more: int = 0

    @property
    def status(self) -> Status:
        rows = self.added_rows or self.removed_rows or self.changed_rows
        if rows or self.added_columns or self.removed_columns:
            return "different"
        return "within" if self.cells_within else "equal"

    def note(self, where: str, a: str, b: str, size: float | None = None) -> None:
        if len(self.locations) < self.most_locations:
            self.locations.append(Location(where, a, b, size))
        else:
            self.more += 1

    def columns(self, a: Row, b: Row) -> None:
        for name in a:
            if name not in b:
                self.removed_columns += 1
                self.note(f"column `{name}`", "there", "gone")
        for name in b:
            if name not in a:
                self.added_columns += 1
                self.note(f"column `{name}`", "", "new")

    def row(self, name: str, a: Row | None, b: Row | None) -> None:
        self.removed_rows += b is None
        self.added_rows += a is None
        self.note(name, ",".join(a or ()), ",".join(b or ()))


class _Cells:
    """Compares the shared columns of two rows."""

    def __init__(self, a: Table, b: Table, shared: Sequence[str], rule: CompareRule) -> None:
        whole = Tolerance.of(rule)
        self._columns = [
            (
                name,
                a.columns.index(name),
                b.columns.index(name),
                Tolerance(rule.columns.get(name, whole.rel), whole.abs, whole.nan_equal),
            )
            for name in shared
        ]

    def compare(self, name: str, a: Row, b: Row, found: _Found) -> None:
        changed = False
        for column, at_a, at_b, tolerance in self._columns:
            one, two = a[at_a], b[at_b]
            if one == two and tolerance.nan_equal:
                continue
            close = _close(one, two, tolerance)
            if close.absolute is not None:
                found.max_abs = max(found.max_abs or 0.0, close.absolute)
            if close.relative is not None:
                found.max_rel = max(found.max_rel or 0.0, close.relative)
            if close.same:
                continue
            found.cells_within += close.within
            if not close.within:
                changed = True
                found.changed_cells += 1
                found.note(f"{name}, {column}", one, two, close.relative)
        found.changed_rows += changed


def _close(a: str, b: str, tolerance: Tolerance) -> written.Closeness:
    """Two cells: as numbers where both are, in the same unit; as text otherwise."""
    one, two = written.cell(a), written.cell(b)
    if one is None or two is None or one[1] != two[1]:
        return written.Closeness(a == b, a == b)
    return written.close(one[0], two[0], tolerance)


def _tolerance_words(rule: CompareRule) -> str:
    words = [str(Tolerance.of(rule)), *(f"{name}: rel {v:g}" for name, v in rule.columns.items())]
    return ", ".join(word for word in words if word)
