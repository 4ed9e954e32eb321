"""What was recorded and planned near a question, without a look at all the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.store.history import History, exact
from orchestrator.verdict.recorded import Recorded, holds, may_hold
from tests.verdict.runs import history, job, result

SCALARS = st.sampled_from([0, 1, True, False, 1.0, "1", "x"])
AXES = st.dictionaries(st.sampled_from(["n", "k"]), SCALARS)


@given(st.lists(st.tuples(st.sampled_from(["time", "hash"]), AXES)), AXES)
def test_what_is_near_has_all_that_lies_there_in_its_order(
    told: list[tuple[str, dict[str, Any]]], where: dict[str, Any]
) -> None:
    results = [result("run", metric, n, point=point) for n, (metric, point) in enumerate(told)]

    near = Recorded(results, History()).near("time", where)

    there = [r for r in results if r.metric == "time" and holds(r.point, where)]
    assert [r for r in near if holds(r.point, where)] == there
    assert {r.metric for r in near} <= {"time"}


@given(st.lists(st.tuples(SCALARS, SCALARS), min_size=1), AXES)
def test_what_is_planned_at_a_point_is_all_that_may_hold_it_each_once(
    planned: list[tuple[Any, Any]], where: dict[str, Any]
) -> None:
    points = [{"n": n, "m": m} for n, m in planned]
    jobs = [replace(job("run", id_=str(n)), point=point) for n, point in enumerate(points)]
    own = result("run", "time", 1.0, point=points[0])

    found = Recorded([own], history(*jobs)).planned_at(replace(own, job="0"), where)

    assert found[0] == points[0]
    told = [exact(point) for point in found]
    assert len(told) == len(set(told))
    assert set(told[1:]) == {exact(p) for p in points if may_hold(p, where)} - {exact(points[0])}
