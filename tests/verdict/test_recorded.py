"""What was recorded near a question, without a look at all the rest."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.store.history import History
from orchestrator.verdict.recorded import Recorded, holds
from tests.verdict.runs import result

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
