"""Units that convert without a doubt, and all others, which do not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.verdict import units


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "converted"),
    [
        (1.0, "ms", "us", 1000.0),
        (2.5, "s", "ms", 2500.0),
        (1500.0, "ns", "µs", 1.5),
        (3.0, "μs", "us", 3.0),
        (2.0, "h", "min", 120.0),
        (1.0, "GBy", "MBy", 1000.0),
        (1.0, "GiBy", "MiBy", 1024.0),
        (1.0, "KiBy", "By", 1024.0),
        (2.0, "TBy/s", "GB/s", 2000.0),
        (50.0, "%", "1", 0.5),
        (0.5, "", "%", 50.0),
        (7.0, "TFLOP/s", "TFLOP/s", 7.0),
    ],
)
def test_converts(value: float, unit: str, wanted: str, converted: float) -> None:
    assert units.convert(value, unit, wanted) == pytest.approx(converted, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "exactly"),
    [(2.0, "ms", "us", 2000.0), (0.01, "ms", "us", 10.0), (7.0, "us", "ns", 7000.0)],
)
def test_rounds_once(value: float, unit: str, wanted: str, exactly: float) -> None:
    """An exact expectation must not miss by the factors of two units."""
    assert units.convert(value, unit, wanted) == exactly


def test_what_is_beyond_every_float_stays_so() -> None:
    assert units.convert(1e308, "h", "ns") == math.inf
    assert units.convert(-1e308, "h", "ns") == -math.inf
    assert units.convert(math.inf, "h", "ns") == math.inf


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [("us", "By"), ("", "us"), ("us", ""), ("TFLOP/s", "GFLOP/s"), ("GB", "GB/s"), ("S", "s")],
)
def test_refuses_what_it_does_not_know_for_sure(unit: str, wanted: str) -> None:
    with pytest.raises(units.UnitMismatch, match=r"measured in `.+`, expected in `.+`"):
        units.convert(1.0, unit, wanted)


@given(st.sampled_from(["s", "ms", "us", "ns", "min", "h"]), st.floats(-1e12, 1e12))
def test_there_and_back_again(unit: str, value: float) -> None:
    back = units.convert(units.convert(value, unit, "us"), "us", unit)

    assert math.isclose(back, value, rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.parametrize("unit", ["", "1", "%"])
def test_dimensionless(unit: str) -> None:
    assert units.is_dimensionless(unit)
    assert not units.is_dimensionless("us")
    assert not units.is_dimensionless("furlong")
