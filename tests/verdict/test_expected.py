"""Every kind of expectation: what hits it, how far from it the rest lies, how it is written."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.verdict import expected
from tests.verdict.runs import entry, judged, measured, result

SHA = "ab" * 20


class TestValue:
    @pytest.mark.parametrize(
        ("expect", "value", "status", "distance"),
        [
            ({"value": 100, "rel": 0.05}, 100.0, "hit", 0.0),
            ({"value": 100, "rel": 0.05}, 104.0, "hit", 0.8),
            ({"value": 100, "rel": 0.05}, 96.0, "hit", -0.8),
            ({"value": 100, "rel": 0.05}, 105.0, "hit", 1.0),
            ({"value": 100, "rel": 0.05}, 106.0, "miss", 1.2),
            ({"value": 100, "rel": 0.05}, 90.0, "miss", -2.0),
            ({"value": 100, "abs": 2}, 102.0, "hit", 1.0),
            ({"value": 100, "abs": 2}, 103.0, "miss", 1.5),
            ({"value": 100, "abs": 2, "rel": 0.05}, 104.0, "hit", 0.8),
            ({"value": 100, "abs": 20, "rel": 0.05}, 110.0, "hit", 0.5),
            ({"value": 0, "abs": 1e-3}, 5e-4, "hit", 0.5),
            ({"value": -100, "rel": 0.1}, -95.0, "hit", 0.5),
            ({"value": 0.3, "rel": 0.1}, 0.33, "hit", 1.0),
            ({"value": 0.3, "rel": 0.1}, 0.27, "hit", -1.0),
        ],
    )
    def test_is_hit_within_its_tolerance(
        self, expect: dict[str, Any], value: float, status: str, distance: float
    ) -> None:
        item = judged(entry(expect), measured(value))

        assert item.status == status
        assert item.distance == pytest.approx(distance)

    @pytest.mark.parametrize("value", [1.7e308, -1.7e308, 1.0])
    @pytest.mark.parametrize(
        "expect",
        [
            {"value": 10**300 - 1, "rel": 0.5},
            {"value": 0, "abs": 1e-300},
            {"interval": [-1e300, 1e300]},
            {"interval": [0, 1e-300]},
            {"interval": [None, -1e300]},
            {"interval": [1e-320, None]},
        ],
    )
    def test_is_a_finite_distance_away_at_the_ends_of_what_is_read(
        self, expect: dict[str, Any], value: float
    ) -> None:
        item = judged(entry(expect), measured(value))

        assert item.distance is not None
        assert math.isfinite(item.distance)
        assert (item.status == "hit") == (abs(item.distance) <= 1)

    def test_in_another_unit(self) -> None:
        item = judged(entry({"value": 100, "rel": "5%"}), measured(0.1, "ms"))

        assert (item.status, item.measured, item.unit) == ("hit", pytest.approx(100.0), "us")

    @pytest.mark.parametrize(
        ("expect", "value", "status"),
        [
            ({"value": 1, "abs": 1e-9}, 1e308, "miss"),
            ({"value": 1, "abs": 1e-9}, -1e308, "miss"),
            ({"value": 1e300, "rel": 0.5}, 1.4e300, "hit"),
            ({"interval": [5e299, 1e300]}, 9e299, "hit"),
            ({"interval": [5e299, 1e300]}, 1e308, "miss"),
            ({"interval": [-1e300, 1e300]}, 1e299, "hit"),
            ({"interval": [None, 1e-300]}, 1e308, "miss"),
            ({"interval": [1, None]}, 1e308, "hit"),
        ],
    )
    def test_of_the_largest_numbers_is_one_that_json_can_hold(
        self, expect: dict[str, Any], value: float, status: str
    ) -> None:
        item = judged(entry(expect), measured(value))

        assert item.status == status
        assert item.distance is not None
        assert status == "hit" or math.copysign(1, item.distance) == math.copysign(1, value)
        json.dumps(item.as_json(), allow_nan=False)

    def test_beyond_every_float_in_its_unit_is_missing(self) -> None:
        item = judged(entry({"interval": [1, None]}), measured(1e307, "h"))

        assert (item.status, item.measured, item.unit) == ("missing", 1e307, "h")
        assert item.reason == "1e+307 h in us is beyond every float"

    def test_in_a_unit_that_does_not_fit(self) -> None:
        item = judged(entry({"value": 100, "rel": "5%"}), measured(100.0, "By"))

        assert item.status == "not_comparable"
        assert item.reason == "measured in `By`, expected in `us`"

    @pytest.mark.parametrize("value", ["fast", True])
    def test_what_is_no_number_misses(self, value: object) -> None:
        item = judged(entry({"value": 1, "rel": "5%"}), measured(value))

        assert item.status == "miss"
        assert item.reason == f"`{value}` is not a number"


class TestInterval:
    @pytest.mark.parametrize(
        ("bounds", "value", "status"),
        [
            ([1, 3], 1.0, "hit"),
            ([1, 3], 3.0, "hit"),
            ([1, 3], 2.0, "hit"),
            ([1, 3], 0.999, "miss"),
            ([1, 3], 3.001, "miss"),
            ([None, 3], -1e9, "hit"),
            ([None, 3], 3.0, "hit"),
            ([None, 3], 3.1, "miss"),
            ([1, None], 1e9, "hit"),
            ([1, None], 1.0, "hit"),
            ([1, None], 0.9, "miss"),
            ([None, 0], 0.0, "hit"),
            ([None, 0], 0.1, "miss"),
            ([0.1, 0.3], 0.3, "hit"),
            ([0.1, 0.3], 0.1, "hit"),
        ],
    )
    def test_is_closed_on_both_sides(
        self, bounds: list[float | None], value: float, status: str
    ) -> None:
        assert judged(entry({"interval": bounds}), measured(value)).status == status

    @given(
        st.floats(-1e6, 1e6),
        st.floats(1e-3, 1e6),
        st.floats(-2e6, 2e6),
        st.sampled_from(["both", "low", "high"]),
    )
    def test_a_hit_is_within_one_width_and_a_miss_beyond_it(
        self, low: float, width: float, value: float, side: str
    ) -> None:
        bounds = [None if side == "high" else low, None if side == "low" else low + width]

        item = judged(entry({"interval": bounds}), measured(value))

        assert item.distance is not None
        assert (item.status == "hit") == (abs(item.distance) <= 1)
        outside = max(
            0.0 if bounds[0] is None else bounds[0] - value,
            0.0 if bounds[1] is None else value - bounds[1],
        )
        if outside <= 0:
            assert item.status == "hit"
        elif outside > 1e-8 * abs(value):
            assert item.status == "miss"

    @given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
    def test_its_own_bounds_are_hits(self, low: float, width: float) -> None:
        one = entry({"interval": [low, low + width]})

        assert judged(one, measured(low)).status == "hit"
        assert judged(one, measured(low + width)).status == "hit"


class TestExact:
    @pytest.mark.parametrize(
        ("wanted", "value", "status"),
        [
            (9, 9, "hit"),
            (9, 9.0, "hit"),
            (9, 9.000001, "miss"),
            (True, True, "hit"),
            (True, 1, "miss"),
            (1, True, "miss"),
            ("mma", "mma", "hit"),
            ("mma", "MMA", "miss"),
            ("1", 1, "miss"),
        ],
    )
    def test_means_equal(self, wanted: object, value: object, status: str) -> None:
        item = judged(entry({"value": wanted, "exact": True}, unit=""), measured(value, ""))

        assert item.status == status

    def test_in_every_round(self) -> None:
        results = [result("run", "time", v, "1", round=r) for r, v in enumerate((9, 9, 10))]

        item = judged(entry({"value": 9, "exact": True}, unit="1"), *results)

        assert item.status == "miss"
        assert item.reason == "the rounds disagree: 9, 10"

    def test_converts_the_unit_first(self) -> None:
        item = judged(entry({"value": 2, "exact": True}, unit="ms"), measured(2000, "us"))

        assert item.status == "hit"


class TestHash:
    def test_equal_and_not(self) -> None:
        one = entry({"hash": SHA}, unit="")

        assert judged(one, measured(SHA, "")).status == "hit"
        assert judged(one, measured("cd" * 20, "")).status == "miss"
        assert judged(one, measured(5, "")).status == "miss"

    def test_rounds_that_disagree_measured_nothing(self) -> None:
        results = [result("run", "time", v, "", round=r) for r, v in enumerate((SHA, "cd" * 20))]

        item = judged(entry({"hash": SHA}, unit=""), *results)

        assert item.status == "missing"
        assert "the rounds disagree" in item.reason


class TestWords:
    @pytest.mark.parametrize(
        ("expect", "unit", "words"),
        [
            ({"value": 640, "rel": "5%"}, "us", "640 ±5 % us"),
            ({"value": 640, "abs": 3}, "us", "640 ±3 us"),
            ({"value": 1, "rel": "5%", "abs": 0.1}, "1", "1 ±5 % or ±0.1"),
            ({"interval": [1, 2]}, "us", "1 … 2 us"),
            ({"interval": [None, 2]}, "us", "≤ 2 us"),
            ({"interval": [1, None]}, "", "≥ 1"),
            ({"value": 9, "exact": True}, "1", "= 9"),
            ({"hash": SHA}, "", SHA),
            ({"interval": [None, 0.9], "ratio_to": {"metric": "x"}}, "us", "ratio ≤ 0.9"),
        ],
    )
    def test_of_an_expectation(self, expect: dict[str, Any], unit: str, words: str) -> None:
        assert expected.words(entry(expect, unit=unit)) == words
