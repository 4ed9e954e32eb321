"""Which quantity an entry speaks of: one point, all its rounds, and a reason when there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.store.history import History
from orchestrator.verdict.measured import (
    Measured,
    NotMeasured,
    quantity,
    summary,
)
from orchestrator.verdict.recorded import Recorded
from tests.verdict.runs import history, job, result

POINTS = [
    result("run[n=1]", "time", 10.0),
    result("run[n=2]", "time", 20.0),
    result("other[n=1]", "time", 99.0),
]


def why_not(call: Any, *question: Any, results: list[Any], jobs: History | None = None) -> str:
    with pytest.raises(NotMeasured) as caught:
        call(*question, Recorded(results, jobs or History()))
    return str(caught.value)


class TestBinding:
    def test_to_the_one_point_that_is_named(self) -> None:
        found = quantity("time", "run", {"n": 2}, Recorded(POINTS, History()))

        assert found == Measured(
            20.0,
            "us",
            1,
            "run",
            values=(20.0,),
            places=(("time", "run", (("n", False, 2),)),),
            rounds=(0,),
        )

    def test_two_points_are_not_one(self) -> None:
        why = why_not(quantity, "time", "run", {}, results=POINTS)

        assert why == "`where` names 2 points (run[n=1], run[n=2], ...), not one"

    def test_two_steps_are_two_points(self) -> None:
        why = why_not(quantity, "time", None, {"n": 1}, results=POINTS)

        assert why.startswith("`where` names 2 points (other[n=1], run[n=1]")

    def test_an_axis_that_is_not_named_must_have_one_value(self) -> None:
        results = [result("run[n=1,m=2]", "time", 5.0)]

        assert quantity("time", None, {"n": 1}, Recorded(results, History())).value == 5.0

    @pytest.mark.parametrize("wanted", ["1", 1.5, True, None])
    def test_values_of_another_type_are_other_points(self, wanted: object) -> None:
        assert "no step recorded" in why_not(quantity, "time", "run", {"n": wanted}, results=POINTS)

    def test_true_is_not_one(self) -> None:
        results = [result("run", "time", 5.0, point={"flag": True})]

        assert quantity("time", None, {"flag": True}, Recorded(results, History())).value == 5.0
        assert "no step" in why_not(quantity, "time", None, {"flag": 1}, results=results)

    def test_true_and_one_are_two_places_of_one_round(self) -> None:
        results = [result("run", "time", 5.0, point={"flag": flag}) for flag in (True, 1)]

        assert quantity("time", None, {"flag": 1}, Recorded(results, History())).count == 1
        why = why_not(quantity, "time", None, {}, results=results)
        assert why == "`where` names 2 points (run[flag=1], run[flag=True], ...), not one"

    def test_an_axis_that_the_process_looped_over_binds_too(self) -> None:
        results = [result("run", "time", float(k), point={"k": k}) for k in (1, 2)]

        assert quantity("time", None, {"k": 2}, Recorded(results, History())).value == 2.0


class TestPlan:
    """A point that recorded nothing may have lost it; then `where` named two points as well."""

    SILENT = history(job("run[n=1]"), job("run[n=2]"), job("other"))

    def test_a_planned_point_that_said_nothing_is_one_more(self) -> None:
        why = why_not(quantity, "time", None, {}, results=POINTS[:1], jobs=self.SILENT)

        assert why == (
            "`where` leaves 2 planned points: run[n=1] recorded `time` there, run[n=2] did not; "
            "name the point in `where`: {n: 1}"
        )

    def test_of_many_one_is_named(self) -> None:
        jobs = history(*(job(f"run[n={n}]") for n in (3, 1, 2)))

        why = why_not(quantity, "time", None, {}, results=POINTS[:1], jobs=jobs)

        assert "3 planned points: run[n=1] recorded `time` there, run[n=3] and 1 more did" in why

    @pytest.mark.parametrize("state", ["failed", "skipped", "waiting", "host_lost"])
    def test_whatever_became_of_its_job(self, state: str) -> None:
        jobs = history(job("run[n=1]"), job("run[n=2]", state))

        assert "leaves 2 planned points" in why_not(
            quantity, "time", "run", {}, results=POINTS[:1], jobs=jobs
        )

    def test_the_point_that_is_named_needs_no_other(self) -> None:
        found = quantity("time", None, {"n": 1}, Recorded(POINTS[:1], self.SILENT))

        assert found.value == 10.0

    def test_a_step_that_never_records_it_is_none(self) -> None:
        told = [result("other", "time", 3.0)]

        assert quantity("time", None, {}, Recorded(told, self.SILENT)).value == 3.0

    def test_a_point_of_a_process_leaves_the_points_of_its_step_open(self) -> None:
        told = [
            result("run[n=1]", "time", 1.0, point={"n": 1, "k": 1}),
            result("run[n=1]", "time", 2.0, point={"n": 1, "k": 2}),
            result("run[n=2]", "time", 3.0, point={"n": 2, "k": 2}),
        ]

        why = why_not(quantity, "time", None, {"k": 1}, results=told, jobs=self.SILENT)
        found = quantity("time", None, {"k": 1, "n": 1}, Recorded(told, self.SILENT))

        assert "leaves 2 planned points" in why
        assert found.value == 1.0

    def test_a_job_of_one_point_may_loop_over_what_it_likes(self) -> None:
        told = [result("other", "time", 1.0, point={"k": 1})]

        assert quantity("time", None, {}, Recorded(told, self.SILENT)).value == 1.0

    def test_rounds_of_one_point_are_one_point(self) -> None:
        jobs = history(*(job("run[n=1]", id_=f"run[n=1]#{r}", round=r) for r in range(2)))
        told = [
            replace(result("run[n=1]", "time", 1.0, round=r), job=f"run[n=1]#{r}") for r in (0, 1)
        ]

        assert quantity("time", None, {}, Recorded(told, jobs)).count == 2

    def test_true_and_one_are_two(self) -> None:
        jobs = history(
            replace(job("run", id_="run[x=true]"), point={"x": True}),
            replace(job("run", id_="run[x=1]"), point={"x": 1}),
        )
        told = [replace(result("run", "time", 7.0, point={"x": True}), job="run[x=true]")]

        why = why_not(quantity, "time", None, {}, results=told, jobs=jobs)

        assert why.endswith("name the point in `where`: {x: true}")
        assert quantity("time", None, {"x": True}, Recorded(told, jobs)).value == 7.0


class TestRounds:
    def test_numbers_give_the_median(self) -> None:
        results = [result("run", "time", v, round=r) for r, v in enumerate((3.0, 1.0, 100.0))]

        found = quantity("time", None, {}, Recorded(results, History()))

        assert (found.value, found.count) == (3.0, 3)

    def test_a_median_beyond_every_float_is_none(self) -> None:
        results = [result("run", "time", v, round=r) for r, v in enumerate((1e308, 1.5e308))]

        why = why_not(quantity, "time", None, {}, results=results)

        assert why == "the median of the rounds is beyond every float: 1e+308, 1.5e+308"

    def test_one_round_keeps_its_type(self) -> None:
        found = quantity("count", None, {}, Recorded([result("run", "count", 7, "1")], History()))

        assert type(found.value) is int

    @pytest.mark.parametrize("values", [("abc", "abc"), (True, True)])
    def test_words_and_truths_that_agree_are_one(self, values: tuple[object, ...]) -> None:
        results = [result("run", "hash", v, "", round=r) for r, v in enumerate(values)]

        assert quantity("hash", None, {}, Recorded(results, History())).value == values[0]

    @pytest.mark.parametrize("values", [("a", "b"), (True, False), (1, "1"), (1, True)])
    def test_rounds_that_disagree_are_told(self, values: tuple[object, ...]) -> None:
        results = [result("run", "hash", v, "", round=r) for r, v in enumerate(values)]

        why = why_not(quantity, "hash", None, {}, results=results)

        assert why.startswith("the rounds disagree: ")

    def test_two_values_of_one_round_are_not_two_rounds(self) -> None:
        """A loop inside the step that names no axis: their median would be of different things."""
        results = [result("run", "time", 1.0), result("run", "time", 2.0)]

        why = why_not(quantity, "time", None, {}, results=results)

        assert why == "recorded 2 times in one round of run; give each its own `point`"

    def test_a_round_that_passed_and_said_nothing_is_missing(self) -> None:
        jobs = history(*(job("run[n=1]", id_=f"run[n=1]#{r}", round=r) for r in range(3)))
        told = [
            replace(result("run[n=1]", "time", 1.0, round=r), job=f"run[n=1]#{r}") for r in (0, 2)
        ]

        why = why_not(quantity, "time", None, {"n": 1}, results=told, jobs=jobs)

        assert why == "recorded in 2 of 3 rounds; not in run[n=1]#1"

    def test_points_that_differ_in_true_and_one_have_rounds_of_their_own(self) -> None:
        jobs = history(
            replace(job("run", id_="run[x=True]"), point={"x": True}),
            replace(job("run", id_="run[x=1]"), point={"x": 1}),
        )
        told = [
            replace(result("run", "time", 7.0, point={"x": True}), job="run[x=True]"),
        ]

        assert quantity("time", None, {"x": True}, Recorded(told, jobs)).value == 7.0

    def test_a_round_that_did_not_pass_is_told_by_its_step(self) -> None:
        """The run's own verdict says that; the rounds that passed still say what they measured."""
        states = ("passed", "failed")
        jobs = history(
            *(job("run", state, id_=f"run#{r}", round=r) for r, state in enumerate(states))
        )
        told = [replace(result("run", "time", 1.0), job="run#0")]

        assert quantity("time", None, {}, Recorded(told, jobs)).count == 1

    def test_several_units_are_told(self) -> None:
        results = [result("run", "time", 1.0), result("run", "time", 1.0, "ms", round=1)]

        assert "several units: ['ms', 'us']" in why_not(quantity, "time", None, {}, results=results)

    def test_a_note_cannot_act_on_who_shows_it(self) -> None:
        gone = result("run", "time", None, status="error", note="one\n\x1b[2Jtwo\u202e")

        with pytest.raises(NotMeasured) as raised:
            summary([gone])

        assert str(raised.value) == "recorded as error: one \ufffd[2Jtwo\ufffd"

    def test_one_round_without_a_value_makes_the_whole_unknown(self) -> None:
        results = [
            result("run", "time", 1.0),
            result("run", "time", None, round=1, status="error", note="it was throttled"),
        ]

        why = why_not(quantity, "time", None, {}, results=results)

        assert why == "recorded as error: it was throttled"


class TestReasons:
    @pytest.mark.parametrize(
        ("jobs", "where", "words"),
        [
            ([job("run")], {}, "no step recorded `time`"),
            ([job("run[n=1]")], {"n": 1}, "no step recorded `time` at [n=1]"),
            ([job("run", "failed", reason="exit code 1")], {}, "run failed: exit code 1"),
            ([job("run", "timed_out", reason="ran longer")], {}, "run timed out: ran longer"),
            ([job("run", "skipped", reason="needs `a`")], {}, "run skipped: needs `a`"),
            ([job("run", "host_lost")], {}, "run host lost"),
            (
                [job("run[n=1]", "failed", reason="x"), job("run[n=2]")],
                {"n": 2},
                "no step recorded `time` at [n=2]",
            ),
            ([job("run", "running")], {}, "run running"),
        ],
    )
    def test_say_what_became_of_the_job(
        self, jobs: list[Any], where: dict[str, Any], words: str
    ) -> None:
        assert why_not(quantity, "time", None, where, results=[], jobs=history(*jobs)) == words

    def test_do_not_say_that_nothing_was_recorded_where_some_cannot_be_read(self) -> None:
        recorded = Recorded(
            [], history(job("run[n=1]")), ["run[n=1]: results.jsonl:1: not a result"]
        )

        with pytest.raises(NotMeasured) as caught:
            quantity("time", None, {"n": 1}, recorded)

        assert str(caught.value) == "no result that can be read is `time` at [n=1]"

    def test_another_step_is_no_reason(self) -> None:
        jobs = history(job("other", "failed", reason="x"), job("run"))

        why = why_not(quantity, "time", "run", {}, results=[], jobs=jobs)

        assert why == "no step recorded `time`"
