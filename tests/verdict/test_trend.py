"""A metric over the rounds of a project."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.store.record import Tree
from orchestrator.store.results import Result
from orchestrator.verdict import trend
from orchestrator.verdict.conditions import Conditions, Field
from orchestrator.verdict.trend import Run, trends
from tests.verdict.runs import history, job, record, result


def run(run_id: str, *results: Result, problem: str = "", **more: Any) -> Run:
    state = {"driver": Field("value", more.pop("driver", 1), severity="identity")}
    known = Conditions() if problem else Conditions(state)
    lost = more.pop("unreadable", ())
    return Run(record(run_id, **more), history(job("run")), results, known, problem, lost)


def time(value: Any, unit: str = "us", **more: Any) -> Result:
    return result("run", "time", value, unit, **more)


def test_rounds_stand_in_order_with_their_ratios() -> None:
    (found,) = trends([run("r1", time(2.0)), run("r2", time(3.0))], "time", {})

    assert [(one.value, one.ratio) for one in found.rounds] == [(2.0, None), (3.0, 1.5)]


def test_every_experiment_has_its_own_series() -> None:
    runs = [
        run("r1", time(1.0), experiment="a"),
        run("r2", time(9.0), experiment="b"),
        run("r3", time(2.0), experiment="a", driver=2),
    ]

    found = trends(runs, "time", {})

    assert [(t.experiment, [r.run_id for r in t.rounds]) for t in found] == [
        ("a", ["r1", "r3"]),
        ("b", ["r2"]),
    ]
    assert found[0].rounds[1].changes == ("driver 1 → 2",)


def test_a_round_without_a_value_stays_with_its_reason() -> None:
    gone = time(None, status="error", note="NaN in the output")

    (found,) = trends([run("r1", time(2.0)), run("r2", gone), run("r3", time(4.0))], "time", {})

    assert [one.value for one in found.rounds] == [2.0, None, 4.0]
    assert found.rounds[1].why == "recorded as error: NaN in the output"
    assert found.rounds[2].ratio == 2.0


def test_another_unit_is_a_change_and_converts_where_it_can() -> None:
    runs = [run("r1", time(1.0, "ms")), run("r2", time(900.0)), run("r3", time(950.0))]

    (found,) = trends(runs, "time", {})

    assert [one.value for one in found.rounds] == pytest.approx([1000.0, 900.0, 950.0])
    assert [one.changes for one in found.rounds] == [(), ("unit ms → us",), ()]


def test_no_unit_is_the_same_in_every_round() -> None:
    runs = [run(name, time(1.0, "")) for name in ("r1", "r2", "r3")]

    (found,) = trends(runs, "time", {})

    assert [one.changes for one in found.rounds] == [(), (), ()]


def test_a_unit_that_does_not_convert_has_no_value() -> None:
    (found,) = trends([run("r1", time(1.0, "By")), run("r2", time(2.0))], "time", {})

    assert found.rounds[0].why == "measured in `By`, which is not `us`"
    assert found.rounds[1].changes == ("unit By → us",)


def test_a_round_whose_evidence_is_gone_hides_no_change() -> None:
    lost = run("r2", problem="evidence missing")
    runs = [run("r1", time(1.0)), lost, run("r3", time(1.0), driver=2)]

    (found,) = trends(runs, "time", {})

    assert (found.rounds[1].why, found.rounds[1].changes) == ("evidence missing", ())
    assert found.rounds[2].changes == ("driver 1 → 2",)


def test_code_names_the_files_that_changed() -> None:
    old, new = "a" * 40, "b" * 40
    runs = [run("r1", time(1.0)), run("r2", time(1.0), tree=Tree(local=new))]

    (found,) = trends(runs, "time", {}, lambda *trees: ["k.py"] if trees == (old, new) else [])

    assert found.rounds[1].changes == ("code",)
    assert found.rounds[1].files == ("k.py",)


def test_a_number_beyond_every_float_is_told_in_words() -> None:
    rounds = [time(1e308, round=0), time(1.5e308, round=1)]
    runs = [
        run("r1", time(1e-10)),
        run("r2", *rounds),
        run("r3", time(1e307, "h")),
        run("r4", time(1e300)),
    ]

    (found,) = trends(runs, "time", {})

    assert [one.value for one in found.rounds] == [1e-10, None, None, 1e300]
    assert found.rounds[1].why.startswith("the median of the rounds is beyond every float: 1e+308")
    assert found.rounds[2].why == "1e+307 h in us is beyond every float"
    assert found.rounds[3].ratio is None


def test_a_sample_beyond_every_float_is_left_out() -> None:
    told = time(1.0, "h", samples=[1.0, 1e307])

    (found,) = trends([run("r1", told), run("r2", time(1.0))], "time", {})

    assert found.rounds[0].samples == [3.6e9]


def test_what_nobody_can_read_is_told_with_a_value_and_without() -> None:
    lost = ("run: results.jsonl:2: `time` is nan",)
    runs = [run("r1", time(1.0), unreadable=lost), run("r2", unreadable=lost), run("r3")]

    (found,) = trends(runs, "time", {})

    assert [(one.value, one.why, one.unreadable) for one in found.rounds] == [
        (1.0, "", lost),
        (None, "no result that can be read is `time`", lost),
        (None, "no step recorded `time`", ()),
    ]


def test_text_and_truth_are_no_series() -> None:
    assert trends([run("r1", time("fast"), time(True, round=1))], "time", {}) == []


def test_a_round_with_one_axis_more_names_several_points() -> None:
    before = run("r1", time(2.0, point={"n": 1}))
    after = run("r2", time(3.0, point={"n": 1, "k": 1}), time(4.0, point={"n": 1, "k": 2}))

    found = {str(one.point): one for one in trends([before, after], "time", {})}

    assert [one.value for one in found["{'n': 1}"].rounds] == [2.0, None]
    assert "names 2 points" in found["{'n': 1}"].rounds[1].why
    assert [one.value for one in found["{'n': 1, 'k': 2}"].rounds] == [None, 4.0]


def test_true_and_one_are_two_points() -> None:
    told = [time(2.0, point={"n": n}) for n in (True, 1)]

    found = trends([run("r1", *told)], "time", {})

    points = [(str(one.point), one.rounds[0].value) for one in found]
    assert points == [("{'n': True}", 2.0), ("{'n': 1}", 2.0)]


def test_no_point_looks_through_all_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    asked = trend.quantity

    def counted(*of: Any) -> Any:
        looked_at.append(len(of[3].near(of[0], of[2])))
        return asked(*of)

    monkeypatch.setattr(trend, "quantity", counted)
    many = [time(float(n), point={"n": n}) for n in range(300)]

    found = trends([run("r1", *many), run("r2", *many)], "time", {})

    assert len(found) == 300
    assert set(looked_at) == {1}
