from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.diff.lines import align as align_module
from orchestrator.diff.lines.align import Span, align

lines = st.lists(st.sampled_from("abcdefgh"), max_size=40)
long_lines = st.lists(st.integers(0, 60), max_size=60)


def check(a: Sequence[object], b: Sequence[object], spans: list[Span]) -> None:
    at_a = at_b = 0
    for span in spans:
        assert (span.a1, span.b1) == (at_a, at_b), "spans follow each other without a gap"
        assert span.a2 > span.a1 or span.b2 > span.b1, "no span is empty"
        if span.same:
            assert list(a[span.a1 : span.a2]) == list(b[span.b1 : span.b2])
        at_a, at_b = span.a2, span.b2
    assert (at_a, at_b) == (len(a), len(b)), "both sides are covered to their ends"
    kinds = [span.same for span in spans]
    assert all(one != two for one, two in itertools.pairwise(kinds))


@given(lines, lines)
def test_spans_cover_both_sides_and_same_means_same(a: list[str], b: list[str]) -> None:
    check(a, b, align(a, b))


@given(long_lines, long_lines)
def test_the_same_holds_without_difflib(a: list[int], b: list[int]) -> None:
    before = align_module._MOST_LINES
    align_module._MOST_LINES = 0
    try:
        check(a, b, align(a, b))
    finally:
        align_module._MOST_LINES = before


@given(long_lines)
def test_a_text_is_the_same_as_itself(a: list[int]) -> None:
    assert all(span.same for span in align(a, a))


@given(st.lists(st.integers(), unique=True, max_size=50), st.data())
def test_removing_lines_from_a_text_of_unique_ones_is_found_exactly(
    a: list[int], data: st.DataObject
) -> None:
    kept = [line for line in a if data.draw(st.booleans())]
    before = align_module._MOST_LINES
    align_module._MOST_LINES = 0
    try:
        spans = align(a, kept)
    finally:
        align_module._MOST_LINES = before

    assert sum(span.a2 - span.a1 for span in spans if span.same) == len(kept)


def test_an_insertion_into_a_large_text_is_one_span() -> None:
    a = list(range(100_000))
    b = [*a[:50_000], "new", *a[50_000:]]

    changed = [span for span in align(a, b) if not span.same]

    assert changed == [Span(False, 50_000, 50_000, 50_000, 50_001)]


def test_hostile_texts_do_not_take_quadratic_time() -> None:
    # Two lines in turns, shifted: every line of one side equals half of the other's.
    a = ["x", "y"] * 60_000
    b = ["y", "z", "x"] * 40_000
    started = time.monotonic()

    check(a, b, align(a, b))

    assert time.monotonic() - started < 10
