from __future__ import annotations

from typing import Any

from orchestrator.agent.environment import drift


def snapshot(**fields: Any) -> dict[str, Any]:
    return {"schema": 1, "fields": {key.replace("__", "."): value for key, value in fields.items()}}


def value(what: Any, severity: str = "condition") -> dict[str, Any]:
    return {
        "state": "value",
        "value": what,
        "unit": "",
        "from": "x",
        "severity": severity,
        "detail": "",
    }


def gone(state: str, severity: str = "condition") -> dict[str, Any]:
    return {**value(None, severity), "state": state, "detail": "why"}


def test_nothing_changed_is_no_drift() -> None:
    same = snapshot(a=value(1), b=gone("unknown"))

    assert drift(same, same) == []


def test_a_changed_number_comes_with_its_difference() -> None:
    before, after = value(1000), value(1500)

    assert drift(snapshot(gpu__0__throttle=before), snapshot(gpu__0__throttle=after)) == [
        {
            "key": "gpu.0.throttle",
            "severity": "condition",
            "before": before,
            "after": after,
            "delta": 500,
        }
    ]


def test_the_gravest_changes_come_first() -> None:
    before = snapshot(a=value(1, "info"), b=value(1), c=value(1, "identity"))
    after = snapshot(a=value(2, "info"), b=value(2), c=value(2, "identity"))

    assert [change["key"] for change in drift(before, after)] == ["c", "b", "a"]


def test_a_value_that_is_lost_is_drift_and_not_zero() -> None:
    (change,) = drift(snapshot(a=value(5)), snapshot(a=gone("error")))

    assert change["after"]["state"] == "error"
    assert change["delta"] is None


def test_another_way_of_not_knowing_is_drift() -> None:
    (change,) = drift(snapshot(a=gone("not_applicable")), snapshot(a=gone("error")))

    assert (change["before"]["state"], change["after"]["state"]) == ("not_applicable", "error")


def test_a_key_that_appears_or_disappears_is_drift() -> None:
    changes = drift(snapshot(a=value(1)), snapshot(b=value(2, "identity")))

    assert [(c["key"], c["before"] is None, c["after"] is None) for c in changes] == [
        ("b", True, False),
        ("a", False, True),
    ]


def test_another_reason_for_the_same_gap_is_no_drift() -> None:
    assert drift(snapshot(a=gone("unknown")), snapshot(a={**gone("unknown"), "detail": "z"})) == []


def test_the_clock_is_no_drift() -> None:
    before = snapshot(time__utc=value("10:00"), time__uptime=value(1.0))
    after = snapshot(time__utc=value("10:05"), time__uptime=value(301.0))

    assert drift(before, after) == []


def test_true_and_false_have_no_difference_to_tell() -> None:
    (change,) = drift(snapshot(a=value(False)), snapshot(a=value(True)))

    assert change["delta"] is None


def test_neither_snapshot_is_changed_by_comparing_them() -> None:
    before, after = snapshot(a=value([1])), snapshot(a=value([2]))

    drift(before, after)

    assert (before, after) == (snapshot(a=value([1])), snapshot(a=value([2])))
