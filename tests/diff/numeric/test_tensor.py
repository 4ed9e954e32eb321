"""Every figure against the same figure worked out in float64 by the book."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from orchestrator.diff.numeric import tensor as tensor_module
from orchestrator.diff.numeric.demand import Demand
from orchestrator.diff.numeric.dtypes import BY_NAME, Dtype, of_numpy
from orchestrator.diff.numeric.tensor import TensorDiff
from orchestrator.diff.rules import EVERYTHING

NAMES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")


def diff(a: Any, b: Any, dtype: Dtype | None = None, **rule: Any) -> TensorDiff:
    kind = dtype or of_numpy(a.dtype)
    demand = Demand.of(EVERYTHING.model_copy(update=rule), kind)
    found = TensorDiff(kind, a.shape, demand)
    flat = [side.view(kind.storage).reshape(-1) for side in (a, b)]
    for start in range(0, flat[0].size, found.piece):
        found.feed(*(side[start : start + found.piece] for side in flat))
    return found


def of(name: str, values: Any) -> Any:
    kind = getattr(ml_dtypes, name, None) or np.dtype(name)
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(kind)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small arrays are cut, too."""
    monkeypatch.setattr(tensor_module, "PIECE", 64)


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_are_those_of_float64(name: str) -> None:
    rng = np.random.default_rng(7)
    a = of(name, rng.standard_normal((23, 17)))
    b = of(name, a.astype("f8") * (1 + rng.standard_normal((23, 17)) * 0.3))

    found = diff(a, b, BY_NAME[name])

    x, y = a.astype("f8"), b.astype("f8")
    apart = np.abs(y - x)
    kind = BY_NAME[name]
    rows = np.linalg.norm(y - x, axis=1) / np.linalg.norm(x, axis=1)
    metrics = found.metrics
    assert metrics["max_abs"] == pytest.approx(apart.max(), rel=1e-6)
    assert metrics["max_rel"] == pytest.approx((apart / np.maximum(np.abs(x), found.floor)).max())
    assert metrics["rel_l2"] == pytest.approx(np.linalg.norm(y - x) / np.linalg.norm(x), rel=1e-5)
    cosine = (x * y).sum() / np.linalg.norm(x) / np.linalg.norm(y)
    assert metrics["cosine"] == pytest.approx(cosine, abs=1e-7)
    assert metrics["worst_row_rel_l2"] == pytest.approx(rows.max(), rel=1e-5)
    assert metrics["worst_row"] == rows.argmax()
    assert metrics["outside"] == (apart > kind.abs + kind.rel * np.abs(x)).sum()
    assert metrics["differing"] == (apart > 0).sum()
    histogram = sum(v for k, v in metrics.items() if k.startswith("ulp_") and k != "ulp_max")
    assert histogram == a.size


@given(data=st.data(), name=st.sampled_from(["float32", "float64", "float16", "bfloat16"]))
@settings(max_examples=150)
def test_what_is_outside_is_what_allclose_says(data: st.DataObject, name: str) -> None:
    shape = data.draw(arrays.array_shapes(max_dims=3, max_side=5))
    floats = st.floats(-1e4, 1e4) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan])
    a = of(name, data.draw(arrays.arrays("f8", shape, elements=floats)))
    noise = data.draw(arrays.arrays("f8", shape, elements=st.sampled_from([0, 1e-7, 1e-3, 0.1])))
    b = of(name, a.astype("f8") * (1 + noise))
    kind = BY_NAME[name]

    found = diff(a, b, kind)

    x, y = a.astype("f8"), b.astype("f8")
    close = np.isclose(y, x, rtol=kind.rel, atol=kind.abs, equal_nan=True)
    assert found.outside.count == (~close).sum()
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    expected = "different" if found.outside.count else ("equal" if same.all() else "within")
    assert found.status == expected


def test_nan_and_infinities_are_counted_apart_and_leave_the_figures_finite() -> None:
    a = np.array([[1, np.nan, np.inf, 2, np.nan, 3, 4, 5, -np.inf]], "f4")
    b = np.array([[1, np.nan, np.inf, 2, 7, np.inf, 4, 5.5, np.inf]], "f4")

    found = diff(a, b)

    specials = found.specials
    assert (specials.nan_a, specials.nan_b, specials.inf_a, specials.inf_b) == (2, 1, 2, 3)
    assert specials.mismatches == 3
    assert found.outside.count == 4
    assert found.max_abs == 0.5
    places = {place.where: (place.a, place.b) for place in found.outside.locations}
    assert places["[0, 4]"] == ("nan", "7.0")
    assert places["[0, 8]"] == ("-inf", "inf")


def test_nan_at_the_same_place_is_a_difference_where_the_rule_says_so() -> None:
    a = np.array([1, np.nan], "f4")

    assert diff(a, a).status == "equal"
    assert diff(a, a, nan="different").outside.count == 1


def test_values_whose_squares_leave_float32_are_summed_in_float64() -> None:
    small = np.full(40, 1e-30, "f4")
    large = np.full(40, 1e30, "f4")

    assert diff(small, small * np.float32(1.5)).norms.rel_l2 == pytest.approx(0.5, rel=1e-6)
    assert diff(large, large * np.float32(1.5)).norms.rel_l2 == pytest.approx(0.5, rel=1e-6)


def test_the_cosine_keeps_its_digits_for_nearly_equal_tensors() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal(4000).astype("f4")
    b = (a + rng.standard_normal(4000) * 1e-4).astype("f4")

    x, y = a.astype("f8"), b.astype("f8")
    angle = np.linalg.norm(y / np.linalg.norm(y) - x / np.linalg.norm(x))

    assert 1 - diff(a, b).norms.cosine == pytest.approx(angle**2 / 2, rel=1e-3)


def test_one_bad_row_shows_where_the_whole_tensor_hides_it() -> None:
    a = np.ones((500, 8), "f4")
    b = a.copy()
    b[321] *= 3

    found = diff(a, b)

    assert found.norms.rel_l2 < 0.1
    assert (found.norms.worst_row, found.norms.worst_row_index) == (2.0, 321)


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "i8", "u8", "?"])
def test_whole_numbers_are_exact(kind: str) -> None:
    dtype = np.dtype(kind)
    if kind == "?":
        a, b, largest = np.array([True, False]), np.array([True, True]), 1.0
    else:
        info = np.iinfo(dtype)
        a, b = np.array([info.min, 5], dtype), np.array([info.max, 5], dtype)
        largest = float(int(info.max) - int(info.min))

    found = diff(a, b)

    assert (found.outside.count, found.status) == (1, "different")
    assert found.max_abs == largest
    assert found.outside.locations[0].where == ("[1]" if kind == "?" else "[0]")


def test_whole_numbers_may_have_a_tolerance() -> None:
    a, b = np.array([100, 1000]), np.array([101, 1200])

    assert diff(a, b, abs=1).outside.count == 1
    assert diff(a, b, rel=0.2).status == "within"


def test_text_is_compared_element_by_element() -> None:
    found = diff(np.array(["ab", "cd"]), np.array(["ab", "ce"]))

    assert (found.outside.count, found.status) == (1, "different")
    assert found.outside.locations[0].where == "[1]"
    assert set(found.metrics) == {"elements", "differing", "outside", "outside_share"}


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"ulp": 1}, "different"),
        ({"ulp": 2}, "within"),
        ({"rel_l2": 1e-9}, "different"),
        ({"rel_l2": 1e-3}, "within"),
        ({"rel_l2": 1e-3, "ulp": 1}, "different"),
        ({"rel": 1e-3, "rel_l2": 1e-9}, "different"),
    ],
)
def test_all_that_a_rule_names_must_hold(rule: dict[str, Any], status: str) -> None:
    a = np.ones(50, "f4")
    b = a.copy()
    b[7] = np.nextafter(np.nextafter(np.float32(1), np.float32(2)), np.float32(2))

    assert diff(a, b, **rule).status == status


def test_an_element_that_breaks_two_demands_is_counted_once() -> None:
    a, b = np.ones(10, "f4"), np.ones(10, "f4")
    b[3] = 2

    assert diff(a, b, rel=0.1, ulp=4).outside.count == 1


def test_every_bit_pattern_of_an_8_bit_float_is_compared() -> None:
    every = np.arange(256, dtype="u1")
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"):
        kind = BY_NAME[name]
        found = TensorDiff(kind, (256,), Demand.of(EVERYTHING, kind))
        found.feed(every, np.roll(every, 1))

        assert found.count == 256
        assert math.isfinite(found.max_abs)
        assert found.specials.nan_a == found.specials.nan_b > 0
