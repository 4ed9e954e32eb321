"""Which lines of two texts belong together, in bounded time.

`difflib` finds the alignment people expect and takes quadratic time and worse; it gets the small
gaps only. Large ones are cut at lines that stand exactly once on either side, in the longest
order both sides share (Bram Cohen's patience diff). A gap without such lines is one replacement.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

# Pairs of equal lines that difflib may look at in one gap; its time grows with them.
_MOST_MATCHES = 40_000
_MOST_LINES = 4_000


class Span(NamedTuple):
    """a[a1:a2] stands against b[b1:b2]; `same` spans hold equal lines, one for one."""

    same: bool
    a1: int
    a2: int
    b1: int
    b2: int


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Span]:
    """Spans that cover both sequences from end to end, in order; neighbours differ in `same`."""
    spans: list[Span] = []
    for span in _aligned(a, b):
        if span.a1 == span.a2 and span.b1 == span.b2:
            continue
        last = spans[-1] if spans else None
        if last is not None and last.same == span.same:
            spans[-1] = Span(span.same, last.a1, span.a2, last.b1, span.b2)
        else:
            spans.append(span)
    return spans


def _aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Span]:
    # A stack instead of recursion: a hostile text may nest its gaps deeply.
    gaps = [(0, len(a), 0, len(b))]
    while gaps:
        a1, a2, b1, b2 = gaps.pop()
        head = _common_head(a, a1, a2, b, b1, b2)
        tail = _common_tail(a, a1 + head, a2, b, b1 + head, b2)
        yield Span(True, a1, a1 + head, b1, b1 + head)
        inner = (a1 + head, a2 - tail, b1 + head, b2 - tail)
        # What comes later waits on the stack: the tail below the gaps that precede it.
        if tail and inner[0] < inner[1] and inner[2] < inner[3]:
            gaps.append((a2 - tail, a2, b2 - tail, b2))
            gaps.append(inner)
            continue
        yield from _gap(a, b, inner, gaps, tail)


def _gap(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    gap: tuple[int, int, int, int],
    gaps: list[tuple[int, int, int, int]],
    tail: int,
) -> Iterator[Span]:
    """Settle a gap that begins and ends with different lines, or push its pieces."""
    a1, a2, b1, b2 = gap
    if a1 == a2 or b1 == b2:
        yield Span(False, a1, a2, b1, b2)
        yield Span(True, a2, a2 + tail, b2, b2 + tail)
    elif _is_small(a[a1:a2], b[b1:b2]):
        yield from _by_difflib(a, b, gap)
    else:
        anchors = _anchors(a, b, gap)
        if not anchors:
            yield Span(False, a1, a2, b1, b2)
            return
        edges = [*anchors, (a2, b2)]
        gaps.extend(
            (start_a, end_a, start_b, end_b)
            for (start_a, start_b), (end_a, end_b) in reversed(
                list(zip([(a1, b1), *anchors], edges, strict=True))
            )
        )


def _common_head(
    a: Sequence[Hashable], a1: int, a2: int, b: Sequence[Hashable], b1: int, b2: int
) -> int:
    length = min(a2 - a1, b2 - b1)
    for index in range(length):
        if a[a1 + index] != b[b1 + index]:
            return index
    return length


def _common_tail(
    a: Sequence[Hashable], a1: int, a2: int, b: Sequence[Hashable], b1: int, b2: int
) -> int:
    length = min(a2 - a1, b2 - b1)
    for index in range(length):
        if a[a2 - 1 - index] != b[b2 - 1 - index]:
            return index
    return length


def _is_small(a: Sequence[Hashable], b: Sequence[Hashable]) -> bool:
    if max(len(a), len(b)) > _MOST_LINES:
        return False
    counts = Counter(b)
    return sum(counts[line] for line in a) <= _MOST_MATCHES


def _by_difflib(
    a: Sequence[Hashable], b: Sequence[Hashable], gap: tuple[int, int, int, int]
) -> Iterator[Span]:
    a1, a2, b1, b2 = gap
    matcher = difflib.SequenceMatcher(None, a[a1:a2], b[b1:b2], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        yield Span(tag == "equal", a1 + i1, a1 + i2, b1 + j1, b1 + j2)


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], gap: tuple[int, int, int, int]
) -> list[tuple[int, int]]:
    """Places of lines that are unique on both sides, rising on both."""
    a1, a2, b1, b2 = gap
    in_a, in_b = Counter(a[a1:a2]), Counter(b[b1:b2])
    place_b = {b[j]: j for j in range(b1, b2) if in_b[b[j]] == 1 and in_a[b[j]] == 1}
    pairs = [(i, place_b[a[i]]) for i in range(a1, a2) if a[i] in place_b]
    return _longest_rising(pairs)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence whose second members rise, too (patience sorting)."""
    tops: list[int] = []
    ends: list[int] = []
    before = [-1] * len(pairs)
    for index, (_, value) in enumerate(pairs):
        pile = bisect_left(tops, value)
        if pile:
            before[index] = ends[pile - 1]
        tops[pile : pile + 1] = [value]
        ends[pile : pile + 1] = [index]
    chain = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]
