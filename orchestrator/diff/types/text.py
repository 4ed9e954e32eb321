"""Text and logs: lines side by side behind counted masks, numbers compared where they stand.

Lines are aligned as they read behind the masks. Where they do not meet, they are aligned once more
without their numbers: `loss 0.31` and `loss 0.32` are the same line with another number.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.diff.blob import Blob
from orchestrator.diff.lines.align import Span, align
from orchestrator.diff.lines.masks import VERSION, Masked, Masks, count_hidden
from orchestrator.diff.numeric import written
from orchestrator.diff.numeric.tolerance import Tolerance
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record, Status
from orchestrator.diff.refusal import Unreadable

# Patterns over a longer line take more time than they are worth: it is compared as it is.
_MOST_MASKED_CHARACTERS = 20_000
_BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def compare(pair: Pair) -> Record:
    """Compare two texts line by line."""
    lines_a, lines_b = pair.read(lambda blob: read_lines(blob, pair.limits.text_bytes))
    masks = Masks(pair.rule.masks)
    tolerance = Tolerance.of(pair.rule)
    found = _Found(pair.limits.locations)
    start, end_a, end_b = _middle(lines_a, lines_b)
    _compare_middle(
        _Lines(lines_a[start:end_a], start, masks),
        _Lines(lines_b[start:end_b], start, masks),
        tolerance,
        found,
    )
    return pair.record(
        found.status,
        metrics={
            "lines_a": len(lines_a),
            "lines_b": len(lines_b),
            "added_lines": found.added,
            "removed_lines": found.removed,
            "changed_numbers": found.changed_numbers,
            "numbers_within": found.numbers_within,
            "masked_lines": found.masked_lines,
            "number_max_abs": found.max_abs,
            "number_max_rel": found.max_rel,
        },
        locations=found.locations,
        more=found.more,
        masks=found.hidden,
        note=f"masks version {VERSION}" if found.hidden else "",
        tolerance=str(tolerance),
    )


def check(pair: Pair) -> None:
    read_lines(pair.a, pair.limits.text_bytes)


def read_lines(blob: Blob, most_bytes: int) -> list[str]:
    """The lines of a text, without their newlines. Bytes that are no UTF-8 are shown as escapes.

    Raises:
        Unreadable: it has NUL bytes and is no UTF-16: no text at all.
    """
    content = blob.read(most_bytes)
    encoding = _BYTE_ORDER_MARKS.get(content[:2], "utf-8")
    if encoding == "utf-8" and b"\0" in content:
        raise Unreadable(f"is not text: a NUL byte at {content.index(0)}")
    text = content.decode(encoding, "backslashreplace").removeprefix("\ufeff")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


@dataclass
class _Found:
    """What the comparison came upon so far."""

    most_locations: int
    added: int = 0
    removed: int = 0
    changed_numbers: int = 0
    numbers_within: int = 0
    masked_lines: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    hidden: Counter[str] = field(default_factory=Counter)
    locations: list[Location] = field(default_factory=list)
    more: int = 0

    @property
    def status(self) -> Status:
        if self.added or self.removed or self.changed_numbers:
            return "different"
        if self.numbers_within:
            return "within"
        return "equal_after_masks" if self.masked_lines else "equal"

    def note(self, where: str, a: str, b: str, size: float | None = None) -> None:
        if len(self.locations) < self.most_locations:
            self.locations.append(Location(where, a, b, size))
        else:
            self.more += 1

    def number(self, absolute: float | None, relative: float | None) -> None:
        if absolute is not None:
            self.max_abs = max(self.max_abs or 0.0, absolute)
        if relative is not None:
            self.max_rel = max(self.max_rel or 0.0, relative)


class _Lines:
    """Some lines of one side, as they are and as they read behind the masks."""

    def __init__(self, raw: Sequence[str], first: int, masks: Masks) -> None:
        self.raw = raw
        self.first = first
        self.hidden = [_hide(line, masks) for line in raw]
        self.masked = [line.text for line in self.hidden]

    def number_of(self, index: int) -> int:
        """The line number in the file, from 1."""
        return self.first + index + 1


def _hide(line: str, masks: Masks) -> Masked:
    return Masked(line) if len(line) > _MOST_MASKED_CHARACTERS else masks.hide(line)


def _middle(a: Sequence[str], b: Sequence[str]) -> tuple[int, int, int]:
    """Where the lines begin to differ, and where each side's end that is the same begins."""
    short = min(len(a), len(b))
    start = next((i for i in range(short) if a[i] != b[i]), short)
    rest = short - start
    tail = next((i for i in range(rest) if a[-1 - i] != b[-1 - i]), rest)
    return start, len(a) - tail, len(b) - tail


def _compare_middle(a: _Lines, b: _Lines, tolerance: Tolerance, found: _Found) -> None:
    for span in align(a.masked, b.masked):
        if span.same:
            _count_masked(a, b, span, found)
        else:
            _compare_unlike(a, b, span, tolerance, found)


def _count_masked(a: _Lines, b: _Lines, span: Span, found: _Found) -> None:
    for at_a, at_b in zip(range(span.a1, span.a2), range(span.b1, span.b2), strict=True):
        if a.raw[at_a] != b.raw[at_b]:
            found.masked_lines += 1
            found.hidden.update(count_hidden(a.hidden[at_a], b.hidden[at_b]))


def _compare_unlike(a: _Lines, b: _Lines, span: Span, tolerance: Tolerance, found: _Found) -> None:
    """Lines that differ behind the masks: by their numbers alone, or altogether."""
    bare_a = [_without_numbers(line) for line in a.masked[span.a1 : span.a2]]
    bare_b = [_without_numbers(line) for line in b.masked[span.b1 : span.b2]]
    for inner in align(bare_a, bare_b):
        if inner.same:
            for offset in range(inner.a2 - inner.a1):
                at = (span.a1 + inner.a1 + offset, span.b1 + inner.b1 + offset)
                _compare_numbers(a, b, at, tolerance, found)
        else:
            _note_replaced(a, b, span, inner, found)


def _compare_numbers(
    a: _Lines, b: _Lines, at: tuple[int, int], tolerance: Tolerance, found: _Found
) -> None:
    one, two = a.masked[at[0]], b.masked[at[1]]
    if one == two:
        return
    places = zip(written.IN_TEXT.findall(one), written.IN_TEXT.findall(two), strict=True)
    closeness = [written.close(x, y, tolerance) for x, y in places]
    for close in closeness:
        if not close.same:
            found.number(close.absolute, close.relative)
            found.numbers_within += close.within
            found.changed_numbers += not close.within
    if not all(close.within for close in closeness):
        largest = max((c.relative for c in closeness if c.relative is not None), default=None)
        where = f"line {a.number_of(at[0])} / {b.number_of(at[1])}"
        found.note(where, a.raw[at[0]], b.raw[at[1]], largest)


def _without_numbers(line: str) -> str:
    return line if len(line) > _MOST_MASKED_CHARACTERS else written.IN_TEXT.sub("#", line)


def _note_replaced(a: _Lines, b: _Lines, outer: Span, span: Span, found: _Found) -> None:
    found.removed += span.a2 - span.a1
    found.added += span.b2 - span.b1
    for gone, come in _side_by_side(span):
        at_a = None if gone is None else outer.a1 + gone
        at_b = None if come is None else outer.b1 + come
        places = [
            "-" if at is None else str(side.number_of(at)) for side, at in ((a, at_a), (b, at_b))
        ]
        found.note(
            f"line {places[0]} / {places[1]}",
            "" if at_a is None else a.raw[at_a],
            "" if at_b is None else b.raw[at_b],
        )


def _side_by_side(span: Span) -> Iterator[tuple[int | None, int | None]]:
    length_a, length_b = span.a2 - span.a1, span.b2 - span.b1
    for offset in range(max(length_a, length_b)):
        yield (
            span.a1 + offset if offset < length_a else None,
            span.b1 + offset if offset < length_b else None,
        )
