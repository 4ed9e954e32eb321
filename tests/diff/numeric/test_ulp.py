from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.diff.numeric.ulp import EDGES, Histogram, distance

KINDS = {
    "float64": (np.dtype("f8"), "u8", 1 << 63),
    "float32": (np.dtype("f4"), "u4", 1 << 31),
    "float16": (np.dtype("f2"), "u2", 1 << 15),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), "u2", 1 << 15),
    "float8_e4m3fn": (np.dtype(ml_dtypes.float8_e4m3fn), "u1", 1 << 7),
    "float8_e5m2": (np.dtype(ml_dtypes.float8_e5m2), "u1", 1 << 7),
}


def steps(a: float, b: float, name: str) -> int:
    kind, bits, sign = KINDS[name]
    one, two = (np.array([value], kind).view(bits) for value in (a, b))
    return int(distance(one, two, sign)[0])


@given(st.floats(allow_nan=False, width=32), st.integers(1, 50))
def test_as_many_steps_as_nextafter_takes(start: float, count: int) -> None:
    value = np.float32(start)
    for _ in range(count):
        # The step from the largest number is infinity, which numpy calls an overflow.
        with np.errstate(over="ignore"):
            value = np.nextafter(value, np.float32(np.inf))

    taken = steps(start, float(value), "float32")

    assert taken == count or math.isinf(float(value))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.sampled_from(sorted(KINDS)))
def test_it_is_symmetric_and_zero_for_equal_values_alone(a: float, b: float, name: str) -> None:
    kind = KINDS[name][0]
    with np.errstate(over="ignore"):
        one, two = (float(np.array([v]).astype(kind).astype("f8")[0]) for v in (a, b))
    if math.isnan(one) or math.isnan(two):
        return

    there, back = steps(one, two, name), steps(two, one, name)

    assert there == back
    assert (there == 0) == (one == two)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_both_zeros_are_the_same_place(name: str) -> None:
    assert steps(0.0, -0.0, name) == 0


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_small_float_is_one_step_from_the_next(name: str) -> None:
    kind, bits, _ = KINDS[name]
    with np.errstate(invalid="ignore"):  # signalling NaN are among them
        every = np.arange(1 << (8 * kind.itemsize), dtype=bits).view(kind).astype("f8")
    values = np.unique(every[np.isfinite(every)])

    below, above = (part.astype(kind).view(bits) for part in (values[:-1], values[1:]))

    assert (distance(below, above, KINDS[name][2]) == 1).all()


def test_the_farthest_two_floats_do_not_wrap_around() -> None:
    largest = float(np.finfo("f4").max)

    assert steps(-largest, largest, "float32") == 2 * 0x7F7FFFFF


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_the_histogram_counts_every_distance_once(distances: list[int]) -> None:
    histogram = Histogram()
    histogram.add(np.array(distances, "u4"))
    histogram.add_zeros(3)

    edges = (-1, *EDGES, math.inf)
    expected = [
        sum(low < value <= high for value in distances) for low, high in itertools.pairwise(edges)
    ]
    expected[0] += 3
    assert histogram.counts == expected
    assert histogram.largest == max(distances, default=0)


def test_small_distances_never_reach_the_far_classes() -> None:
    histogram = Histogram()
    histogram.add(np.array([0, 1, 255], "u1"))

    assert dict(histogram.metrics()) == {"ulp_max": 255, "ulp_0": 1, "ulp_1": 1, "ulp_17_to_256": 1}
