"""Results of two runs, metric by metric and point by point."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.diff.measures import points
from orchestrator.diff.measures.contrast import Contrast
from orchestrator.store.results import Result

STEADY = [10.0, 10.02, 9.99, 10.01, 10.03, 9.98, 10.0, 10.01]


def results(*values: Any, **facts: Any) -> list[Result]:
    """A result a round."""
    return [
        Result(**{
            "metric": "time", "value": value, "unit": "us", "step": "s", "point": {"n": 1},
            "round": turn, "job": f"s[{turn}]", **facts,
        })
        for turn, value in enumerate(values)
    ]  # fmt: skip


def only(a: list[Result], b: list[Result], obstacle: str = "") -> Contrast:
    (found,) = points.compare(a, b, obstacle)
    return found.contrast


def test_stable_points_have_a_ratio_of_medians() -> None:
    found = only(results(*STEADY), results(*(value * 1.2 for value in STEADY)))

    assert found.outcome == "measured"
    assert found.ratio == pytest.approx(1.2)
    assert found.a.centre_kind == "median"
    assert found.ratio_range is not None
    low, high = found.ratio_range
    assert low < 1.2 < high


def test_a_side_that_is_not_stable_puts_both_on_their_floor() -> None:
    shaken = [10.0, 10.02, 10.05, 13.0, 15.0, 12.0, 11.0, 14.0]

    found = only(results(*STEADY), results(*shaken))

    assert found.outcome == "measured"
    assert (found.a.centre_kind, found.b.centre_kind) == ("floor", "floor")
    assert found.b.centre == 10.02
    assert found.b.point_class == "fluctuating"


def test_a_floor_that_does_not_repeat_is_ambiguous() -> None:
    found = only(results(*STEADY), results(8.0, 10.0, 10.5, 13.0, 15.0, 12.0, 11.0, 14.0))

    assert (found.outcome, found.ratio) == ("ambiguous", None)
    assert "do not repeat" in found.reason
    assert found.b.low == 8.0


def test_few_blocks_have_a_ratio_and_no_centre() -> None:
    found = only(results(10.0, 11.0), results(20.0, 22.0))

    assert (found.outcome, found.ratio) == ("too_few", 2.0)
    assert found.a.centre is None
    assert (found.a.low, found.a.high) == (10.0, 11.0)


def test_what_one_process_recorded_often_is_one_block() -> None:
    one_job = [*results(10.0), *results(12.0)]

    assert only(one_job, one_job).a.count == 1


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        (1, 1, "equal"),
        (1, 2, "different"),
        ("sm_90", "sm_90", "equal"),
        ("sm_90", "sm_100", "different"),
        (True, 1, "different"),
        ([1, 2], [1, 2], "equal"),
        ({"a": 1}, {"a": 2}, "different"),
        (10**400, 10**400 + 1, "different"),
    ],
)
def test_counts_texts_and_flags_are_exact(a: Any, b: Any, outcome: str) -> None:
    assert only(results(a, unit="1"), results(b, unit="1")).outcome == outcome


def test_an_exact_value_that_changes_between_rounds_is_a_finding() -> None:
    found = only(results(1, 2, unit="1"), results(1, 1, unit="1"))

    assert found.outcome == "different"
    assert found.reason == "the rounds of A: 1, 2"


@pytest.mark.parametrize("status", ["error", "unknown", "skipped", "not_applicable"])
def test_a_side_without_a_value_has_no_ratio(status: str) -> None:
    without = results(None, status=status, note="the kernel hung")

    found = only(results(1.0), without)

    assert (found.outcome, found.ratio) == ("no_value", None)
    assert f"recorded as {status.replace('_', ' ')} in B: the kernel hung" == found.reason


def test_a_metric_of_one_side_is_told_so() -> None:
    assert only(results(1.0), []).outcome == "only_a"
    assert only(results(1.0), []).a.median == 1.0
    assert only([], results(1.0)).b.median == 1.0
    assert only([], results(1.0)).outcome == "only_b"


def test_points_do_not_mix() -> None:
    a = [*results(1.0, point={"n": 1}), *results(9.0, point={"n": "1"})]
    b = [*results(2.0, point={"n": 1}), *results(9.0, point={"n": "1"})]

    found = points.compare(a, b)

    assert sorted(m.contrast.ratio or 0 for m in found) == [1.0, 2.0]


def test_units_are_converted_or_refused() -> None:
    same = only(results(1.0, unit="ms"), results(1000.0, unit="us"))
    other = only(results(1.0, unit="ms"), results(1.0, unit="GB/s"))

    assert same.ratio == pytest.approx(1.0)
    assert other.outcome == "not_comparable"
    assert "GB/s" in other.reason


def test_another_way_of_timing_is_not_comparable() -> None:
    graph = results(*STEADY, timing={"mode": "graph", "flush": True})
    eager = results(*STEADY, timing={"mode": "eager", "flush": True})

    found = only(graph, eager)

    assert found.outcome == "not_comparable"
    assert found.reason == "timed in another way: mode graph -> eager"


def test_unlike_hosts_are_not_comparable_and_the_ratio_is_shown() -> None:
    found = only(results(*STEADY), results(*STEADY), "gpu.0.name differs")

    assert (found.outcome, found.reason) == ("not_comparable", "gpu.0.name differs")
    assert found.ratio == 1.0


def test_an_obstacle_does_not_hide_that_nothing_was_measured() -> None:
    without = results(None, status="error")

    assert only(without, without, "gpu.0.name differs").outcome == "no_value"
    assert only(results(1.0), [], "gpu.0.name differs").outcome == "only_a"


@pytest.mark.parametrize(
    "values",
    [[0.0] * 8, [-1.0] * 8, [0.0, 1.0] * 4, [10**400] * 8, [1e308] * 8, ["x", 1.0]],
    ids=range(6),
)
def test_values_without_a_logarithm_break_nothing(values: list[Any]) -> None:
    found = only(results(*values), results(*STEADY))

    assert found.outcome in ("measured", "not_comparable", "different")
    assert found.ratio is None or found.ratio < 1


def test_a_block_whose_best_sample_is_zero_has_no_ratio() -> None:
    zero = results(*[10.0, 12.0] * 4, samples=(0.0, 10.0, 20.0))

    assert only(zero, results(*STEADY)).ratio is None
