from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.diff.numeric import written
from orchestrator.diff.numeric.tolerance import Tolerance

EXACT = Tolerance()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("loss=0.31 step 7", ["0.31", "7"]),
        ("sm_90 v1.2.3 fp16", []),
        ("-1e-5, +2 .5", ["-1e-5", "+2", ".5"]),
        ("nan inf nanometre", ["nan", "inf"]),
        ("range 3-4", ["3", "4"]),
    ],
)
def test_numbers_are_found_outside_of_words(text: str, found: list[str]) -> None:
    assert written.IN_TEXT.findall(text) == found


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_spelling_of_a_number_is_the_same(value: float) -> None:
    assert written.close(repr(value), f"{value:.17e}", EXACT).same


@given(st.text(max_size=30))
def test_a_cell_is_a_number_or_it_is_not_and_nothing_breaks(text: str) -> None:
    found = written.cell(text)

    assert found is None or float(found[0]) is not None


def test_large_whole_numbers_are_told_apart() -> None:
    close = written.close("9007199254740993", "9007199254740992", EXACT)

    assert not close.same
    assert not close.within


@pytest.mark.parametrize("text", ["1e99999999999999999999", "1" * 500, "9" * 201])
def test_numbers_beyond_arithmetic_are_different_and_no_error(text: str) -> None:
    assert not written.close(text, "1", Tolerance(0.5)).within


def test_units_are_part_of_a_cell() -> None:
    assert written.cell("8 MiB") == ("8", "MiB")
    assert written.cell("95%") == ("95", "%")
    assert written.cell("12 34") is None
    assert written.cell("[N/A]") is None


def test_nan_follows_the_rule() -> None:
    assert written.close("nan", "nan", EXACT).same
    assert not written.close("nan", "nan", Tolerance(nan_equal=False)).same
    assert not written.close("nan", "1", Tolerance(1.0, 1.0)).within
