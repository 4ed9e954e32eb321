"""The conditions of two runs: what differs, identity before state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.diff.conditions import ConditionDiff, compare
from orchestrator.verdict.conditions import Conditions, Field


def fact(value: Any, severity: str = "identity", unit: str = "") -> Field:
    return Field("value", value, unit, severity=severity)


UNKNOWN = Field("unknown", severity="identity", detail="no such tool")


def diff(a: dict[str, Field], b: dict[str, Field], **after: dict[str, Field]) -> ConditionDiff:
    one = Conditions(a, after.get("after_a", {}), "isolated")
    return compare(one, Conditions(b, after.get("after_b", {}), "isolated"))


def test_identity_comes_before_state() -> None:
    found = diff(
        {"a.load": fact(1, "condition"), "b.note": fact("x", "info"), "z.driver": fact("1")},
        {"a.load": fact(2, "condition"), "b.note": fact("y", "info"), "z.driver": fact("2")},
    )

    assert [change.name for change in found.changes] == ["z.driver", "a.load", "b.note"]
    assert found.obstacle == "z.driver differs"


def test_state_alone_is_no_obstacle() -> None:
    found = diff({"load": fact(1, "condition")}, {"load": fact(2, "condition")})

    assert found.obstacle == ""
    assert found.changes[0].delta == 1.0


def test_what_one_side_does_not_know_is_a_difference() -> None:
    assert diff({"driver": fact("1")}, {"driver": UNKNOWN}).obstacle == "driver differs"
    assert diff({"driver": fact("1")}, {"other": fact("x", "info")}).obstacle == "driver differs"


def test_what_neither_side_knows_is_counted_and_not_called_the_same() -> None:
    found = diff({"driver": UNKNOWN}, {"driver": UNKNOWN})

    assert (found.unknown, found.changes) == (1, ())
    assert found.same == 1, "the caches"


def test_a_fact_that_changed_during_a_run_stands_in_the_way() -> None:
    same = {"driver": fact("1")}

    found = diff(same, same, after_b={"driver": fact("2")})

    assert found.as_json()["drifted"] == ["B: driver"]
    assert found.obstacle == "B: driver changed during the run"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (fact("1"), UNKNOWN, "driver not known after the run"),
        (UNKNOWN, fact("1"), "driver not known before the run"),
        (fact("1"), replace(UNKNOWN, state="not_applicable"), "driver changed during the run"),
    ],
)
def test_what_is_not_known_any_more_is_not_called_changed(
    before: Field, after: Field, words: str
) -> None:
    found = diff({"driver": before}, {"driver": before}, after_a={"driver": after})

    assert found.obstacle == f"A: {words}"


def test_without_any_snapshot_nothing_is_comparable() -> None:
    assert diff({}, {}).missing
    assert "no snapshot" in diff({}, {}).obstacle
    assert diff({"driver": fact("1")}, {}).obstacle == "driver differs"


def test_a_runs_own_id_is_no_difference() -> None:
    a = Conditions({"cache": fact("/c/run-a/x")}, {}, "isolated")
    b = Conditions({"cache": fact(["/c/run-b/x"])}, {}, "isolated")
    c = Conditions({"cache": fact("/c/run-b/x")}, {}, "isolated")

    assert compare(a, c, "run-a", "run-b").changes == ()
    assert len(compare(a, b, "run-a", "run-b").changes) == 1


def test_moments_are_no_difference() -> None:
    assert diff({"time.utc": fact(1)}, {"time.utc": fact(2)}).changes == ()


def test_caches_are_a_condition() -> None:
    one = Conditions({"x": fact(1)}, {}, "isolated")
    two = Conditions({"x": fact(1)}, {}, "kept")

    (change,) = compare(one, two).state

    assert (change.name, change.a.value, change.b.value) == ("caches", "isolated", "kept")


@pytest.mark.parametrize("value", [True, "8", None, 0, float("nan"), 10**400])
def test_what_has_no_relative_change_has_none(value: Any) -> None:
    found = diff({"x": fact(value, "condition")}, {"x": fact(3.0, "condition")})

    delta = found.changes[0].delta
    assert delta is None or delta != delta
