from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.diff.numeric.tolerance import Tolerance, distances

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
numbers = st.one_of(finite, st.integers(), st.floats())
widths = st.floats(min_value=0, max_value=10)


@given(a=finite, b=finite, rel=widths, absolute=widths)
def test_it_is_the_rule_of_numpys_allclose(a: float, b: float, rel: float, absolute: float) -> None:
    with np.errstate(all="ignore"):
        expected = bool(np.isclose(b, a, rtol=rel, atol=absolute))
        # numpy calls an overflowing distance close to an overflowing width.
        if not math.isfinite(b - a):
            expected = a == b

    assert Tolerance(rel, absolute).allows(a, b) == expected


@given(a=numbers)
def test_everything_is_within_any_tolerance_of_itself(a: float) -> None:
    assert Tolerance().allows(a, a)
    assert Tolerance(0.1, 1.0).allows(a, a)


@given(a=numbers, b=numbers, rel=widths, absolute=widths)
def test_a_wider_tolerance_never_refuses_what_a_narrower_allows(
    a: float, b: float, rel: float, absolute: float
) -> None:
    if Tolerance(rel, absolute).allows(a, b):
        assert Tolerance(rel * 2, absolute * 2).allows(a, b)


@pytest.mark.parametrize("other", [1.0, math.inf, -math.inf, math.nan])
def test_an_infinity_is_close_to_itself_only(other: float) -> None:
    assert Tolerance(1.0, 1e300).allows(math.inf, other) == (other == math.inf)


def test_nan_is_equal_to_nan_only_where_the_rule_says_so() -> None:
    assert Tolerance(nan_equal=True).allows(math.nan, math.nan)
    assert not Tolerance(1.0, 1.0, nan_equal=False).allows(math.nan, math.nan)
    assert not Tolerance(1.0, 1.0).allows(math.nan, 1.0)


def test_whole_numbers_beyond_every_float_are_compared_exactly() -> None:
    large = 10**400

    assert Tolerance().allows(large, large)
    assert not Tolerance().allows(large, large + 1)
    assert not Tolerance(0.5, 1.0).allows(1.5, large)
    assert distances(large, large + 1) == (None, None)


def test_distances_are_none_where_there_is_none() -> None:
    assert distances(2.0, 3.0) == (1.0, 0.5)
    assert distances(0.0, 3.0) == (3.0, None)
    assert distances(math.inf, 1.0) == (None, None)
