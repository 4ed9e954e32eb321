"""Every entry against every kind of evidence, and what no entry speaks of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.spec.ledger import Entry
from orchestrator.store.history import History
from orchestrator.store.results import Result
from orchestrator.verdict.conditions import Conditions, Field
from orchestrator.verdict.decision import exit_code
from orchestrator.verdict.reconcile import reconcile
from tests.verdict.runs import entry, history, job, judged, ledger, measured, result


class TestRatio:
    def test_to_a_metric_at_another_point(self) -> None:
        expect = {"value": 0.5, "rel": "5%", "ratio_to": {"metric": "time", "where": {"n": 2}}}

        item = judged(
            entry(expect, where={"n": 1}),
            result("run[n=1]", "time", 1.0),
            result("run[n=2]", "time", 0.002, "ms"),
        )

        assert (item.status, item.measured, item.unit) == ("hit", 0.5, "1")

    def test_to_a_metric_at_the_same_point(self) -> None:
        expect = {"interval": [None, 0.9], "ratio_to": {"metric": "eager"}}

        item = judged(
            entry(expect, where={"n": 1}),
            result("run[n=1]", "time", 8.0),
            result("run[n=1]", "eager", 10.0),
            result("run[n=2]", "eager", 1.0),
        )

        assert (item.status, item.measured) == ("hit", 0.8)

    def test_to_another_entry_even_a_computed_one(self) -> None:
        expect = {"value": 2, "rel": "1%", "ratio_to": {"entry": "base"}}
        base = entry({"interval": [0, None]}, id="base", compute="a - b")

        item = judged(
            entry(expect),
            measured(10.0),
            result("run", "a", 8.0),
            result("run", "b", 3.0),
            others=(base,),
        )

        assert (item.status, item.measured) == ("hit", 2.0)

    @pytest.mark.parametrize(
        ("value", "reference", "status", "reason"),
        [
            (1.0, 0.0, "missing", "the reference of the ratio is zero"),
            ("word", 1.0, "miss", "`word` is not a number"),
            (1.0, "word", "missing", "the reference of the ratio is `word`, not a number"),
            (1.0, True, "missing", "the reference of the ratio is `True`, not a number"),
            (True, 1.0, "miss", "`True` is not a number"),
        ],
    )
    @pytest.mark.parametrize("how", [{"rel": "1%"}, {"exact": True}], ids=["near", "exact"])
    def test_of_what_is_no_number(
        self, how: dict[str, Any], value: object, reference: object, status: str, reason: str
    ) -> None:
        expect = {"value": 1, **how, "ratio_to": {"metric": "base"}}

        item = judged(entry(expect), measured(value), result("run", "base", reference))

        assert (item.status, item.reason) == (status, reason)

    @pytest.mark.parametrize(
        ("value", "unit", "base", "reason"),
        [
            (1e308, "us", 1e-10, "the ratio of 1e+308 to 1e-10 is beyond every float"),
            (1e-320, "us", 1e300, "the ratio of 1e-320 to 1e+300 is below every float"),
            (1.0, "ns", 1e307, "1e+307 us in ns is beyond every float"),
        ],
    )
    def test_beyond_every_float_is_none(
        self, value: float, unit: str, base: float, reason: str
    ) -> None:
        expect = {"interval": [1, None], "ratio_to": {"metric": "base"}}

        item = judged(entry(expect), measured(value, unit), result("run", "base", base))

        assert (item.status, item.reason) == ("missing", reason)

    def test_to_something_of_another_kind(self) -> None:
        expect = {"value": 1, "rel": "1%", "ratio_to": {"metric": "base"}}

        item = judged(entry(expect), measured(1.0), result("run", "base", 1.0, "By"))

        assert item.status == "not_comparable"

    @pytest.mark.parametrize("value", [1.0, True, "1"])
    @pytest.mark.parametrize("how", [{"rel": "1%"}, {"exact": True}], ids=["near", "exact"])
    def test_to_something_that_was_not_measured(self, how: dict[str, Any], value: object) -> None:
        expect = {"value": 1, **how, "ratio_to": {"metric": "base"}}

        item = judged(entry(expect), measured(value))

        assert (item.status, item.reason) == ("missing", "no step recorded `base`")


class TestAxisOfTheReference:
    """The `where` of an entry holds for its reference too, and no axis can be taken away."""

    HINT = (
        "no step recorded `c` at [n=1]; `base` recorded it without the axis `n`, which `ratio_to` "
        "takes over from the entry: `ratio_to: {entry: ...}` asks at a point of its own"
    )

    def reason(self, reference: dict[str, Any], *results: Result) -> str:
        expect = {"value": 1, "rel": "5%", "ratio_to": {"metric": "c", **reference}}
        one = entry(expect, where={"n": 1}, step="run")
        jobs = history(job("run[n=1]"), job("base"), job("k[k=1]"))

        item = judged(one, result("run[n=1]", "time", 1.0), *results, jobs=jobs)

        assert item.status == "missing"
        return item.reason

    @pytest.mark.parametrize("step", [{"step": "base"}, {}])
    def test_that_its_step_does_not_have_is_told(self, step: dict[str, str]) -> None:
        assert self.reason(step, result("base", "c", 1.0)) == self.HINT

    @pytest.mark.parametrize(
        ("reference", "results"),
        [
            ({"step": "base"}, []),
            ({"step": "run"}, [result("base", "c", 1.0)]),
            ({}, [result("run[n=2]", "c", 1.0)]),
            ({}, [result("run[n=2]", "c", 1.0), result("base", "c", 1.0)]),
            ({"where": {"n": 3}}, [result("base", "c", 1.0)]),
            ({"where": {"k": 1}}, [result("base", "c", 1.0)]),
        ],
    )
    def test_that_explains_nothing_is_not(
        self, reference: dict[str, Any], results: list[Result]
    ) -> None:
        reason = self.reason(reference, *results)

        assert reason.startswith("no step recorded `c` at [")
        assert ";" not in reason

    def test_what_was_recorded_without_a_value_keeps_its_reason(self) -> None:
        gone = result("run[n=1]", "c", None, status="error", note="x")

        assert self.reason({}, gone, result("base", "c", 1.0)) == "recorded as error: x"

    def test_an_entry_of_its_own_is_measured(self) -> None:
        base = entry({"interval": [0, None]}, id="base", metric="c", step="base")
        expect = {"value": 2, "rel": "5%", "ratio_to": {"entry": "base"}}
        results = (result("run[n=1]", "time", 2.0), result("base", "c", 1.0))

        item = judged(entry(expect, where={"n": 1}), *results, others=(base,))

        assert item.status == "hit"


class TestCompute:
    def test_is_judged_like_a_metric(self) -> None:
        one = entry({"value": 20, "abs": 1}, compute="a - b")

        item = judged(one, result("run", "a", 30.0), result("run", "b", 10.0))

        assert (item.status, item.metric, item.measured) == ("hit", "a - b", 20.0)

    def test_of_numbers_alone_is_missing(self) -> None:
        item = judged(entry({"value": 6, "abs": 1}, compute="2 * 3"))

        assert (item.status, item.reason) == ("missing", "`2 * 3` names no metric")


class TestRequires:
    CONDITIONS = Conditions(
        {
            "gpu.0.name": Field("value", "H200"),
            "gpu.0.ecc": Field("unknown", detail="nobody told"),
            "gpu.count": Field("value", 1),
        },
        caches="cold",
    )

    @pytest.mark.parametrize(
        ("requires", "reason"),
        [
            ({"gpu.0.name": "H100"}, "`gpu.0.name` is `H200`, required is `H100`"),
            ({"gpu.0.ecc": "enabled"}, "`gpu.0.ecc` is unknown, required is `enabled`"),
            ({"no.such": 1}, "`no.such` is unknown, required is `1`"),
            ({"caches": "warm"}, "`caches` is `cold`, required is `warm`"),
            ({"gpu.count": True}, "`gpu.count` is `1`, required is `True`"),
        ],
    )
    @pytest.mark.parametrize("results", [[measured(100.0)], []], ids=["measured", "not measured"])
    def test_unmet_is_not_comparable_whatever_was_measured(
        self, requires: dict[str, Any], reason: str, results: list[Result]
    ) -> None:
        one = entry({"value": 100, "rel": "5%"}, requires=requires)

        item = judged(one, *results, conditions=self.CONDITIONS)

        assert (item.status, item.reason) == ("not_comparable", reason)

    def test_met_is_judged(self) -> None:
        one = entry({"value": 100, "rel": "5%"}, requires={"gpu.0.name": "H200", "caches": "cold"})

        assert judged(one, measured(100.0), conditions=self.CONDITIONS).status == "hit"


class TestNew:
    def test_what_nobody_predicted_is_told_with_all_its_rounds(self) -> None:
        results = [result("run[n=1]", "extra", v, round=r) for r, v in enumerate((1.0, 9.0, 2.0))]

        (item,) = reconcile(None, results, History(), Conditions())

        assert (item.status, item.metric, item.where) == ("new", "extra", {"n": 1})
        assert (item.measured, item.count, item.unit) == (2.0, 3, "us")

    def test_what_was_predicted_or_used_by_a_prediction_is_not_new(self) -> None:
        entries = ledger(
            entry({"value": 1, "rel": "5%", "ratio_to": {"metric": "base"}}),
            entry({"value": 1, "rel": "5%"}, id="e2", compute="a - b"),
        )
        results = [result("run", name, 1.0) for name in ("time", "base", "a", "b", "rest")]

        items = reconcile(entries, results, History(), Conditions())

        assert [item.metric for item in items if item.status == "new"] == ["rest"]

    def test_rounds_that_disagree_are_shown_with_their_reason(self) -> None:
        results = [result("run", "extra", v, "", round=r) for r, v in enumerate(("a", "b"))]

        (item,) = reconcile(None, results, History(), Conditions())

        assert (item.status, item.measured) == ("new", None)
        assert "the rounds disagree: a, b" in item.reason

    @pytest.mark.parametrize(
        ("status", "severity"),
        [
            ("error", "blocker"),
            ("unknown", "blocker"),
            ("skipped", "info"),
            ("not_applicable", "info"),
        ],
    )
    def test_a_result_without_a_value_is_missing_not_new(self, status: str, severity: str) -> None:
        results = [result("run[n=1]", "extra", None, status=status, note="NaN in the output")]

        (item,) = reconcile(None, results, History(), Conditions())

        assert (item.status, item.severity) == ("missing", severity)
        assert (item.metric, item.step, item.where) == ("extra", "run", {"n": 1})
        assert item.reason == f"recorded as {status}: NaN in the output"

    def test_one_round_without_a_value_makes_the_metric_missing(self) -> None:
        results = [
            result("run", "extra", 1.0, round=0),
            result("run", "extra", None, round=1, status="error", note="x"),
        ]

        (item,) = reconcile(None, results, History(), Conditions())

        assert (item.status, item.measured) == ("missing", None)

    @pytest.mark.parametrize(
        "asking",
        [
            entry({"value": 1, "rel": "5%"}, metric="gone", severity="info"),
            entry({"value": 1, "rel": "5%"}, compute="gone / 2", severity="info"),
            entry(
                {"value": 1, "rel": "5%", "ratio_to": {"metric": "gone"}},
                metric="there",
                severity="info",
            ),
        ],
    )
    def test_what_an_entry_waits_for_is_told_once_and_as_gravely_as_it_says(
        self, asking: Entry
    ) -> None:
        results = [
            result("run", "gone", None, round=0, status="error", note="x"),
            result("run", "gone", 2.0, round=1),
            result("run", "there", 1.0),
        ]

        items = reconcile(ledger(asking), results, history(job("run")), Conditions())

        told = [item for item in items if item.metric != "there" or item.is_predicted]
        assert [(item.id, item.status, item.severity) for item in told] == [
            ("e1", "missing", "info")
        ]

    @pytest.mark.parametrize(
        ("asking", "reason"),
        [
            (entry({"value": 1, "rel": "5%"}, metric="b"), "recorded in 1 of 2 rounds"),
            (entry({"value": 1, "rel": "5%"}, compute="b + a"), "recorded in 1 of 2 rounds"),
            (
                entry({"value": 1, "rel": "5%", "ratio_to": {"metric": "b"}}, metric="a"),
                "recorded in 1 of 2 rounds",
            ),
            (entry({"value": 1, "rel": "5%"}, compute="a / gone + b"), "no step recorded `gone`"),
        ],
    )
    def test_what_an_entry_found_and_could_not_judge_is_not_new(
        self, asking: Entry, reason: str
    ) -> None:
        jobs = history(*(job("run", id_=f"run#{number}", round=number) for number in range(2)))
        results = [
            replace(result("run", name, 1.0, round=number), job=f"run#{number}")
            for name, number in (("a", 0), ("a", 1), ("b", 0))
        ]

        items = reconcile(ledger(asking), results, jobs, Conditions())

        told = {item.metric: item.status for item in items if not item.is_predicted}
        assert told == ({"a": "new"} if asking.metric == "b" else {})
        (judged_item,) = (item for item in items if item.is_predicted)
        assert judged_item.status == "missing"
        assert reason in judged_item.reason


class TestErrorsBesideAnEntry:
    """An info entry quietens no error but at the one point that it names."""

    JOBS = history(job("run[n=1]"), job("run[n=2]"))
    FAILED = tuple(
        result(f"run[n={n}]", "time", None, status="error", note="NaN in the output")
        for n in (1, 2)
    )

    def told(self, one: Entry, *results: Result) -> list[tuple[str, str, str]]:
        items = reconcile(ledger(one), results, self.JOBS, Conditions())
        return sorted((item.id, item.status, item.severity) for item in items)

    @pytest.mark.parametrize("results", [FAILED, FAILED[:1]], ids=["both", "one"])
    def test_an_entry_that_names_several_points_speaks_for_none(
        self, results: tuple[Result, ...]
    ) -> None:
        one = entry({"value": 1, "rel": "5%"}, severity="info")

        blockers = [("time", "missing", "blocker")] * len(results)
        assert self.told(one, *results) == [("e1", "missing", "info"), *blockers]

    def test_the_point_that_is_named_is_as_grave_as_its_entry_says(self) -> None:
        one = entry({"value": 1, "rel": "5%"}, severity="info", where={"n": 1})

        assert self.told(one, *self.FAILED) == [
            ("e1", "missing", "info"),
            ("time", "missing", "blocker"),
        ]

    @pytest.mark.parametrize("metric", ["time", "gone"])
    @pytest.mark.parametrize("requires", [{}, {"no.such": 1}], ids=["met", "unmet"])
    def test_the_reference_of_a_ratio_is_named_whatever_becomes_of_the_rest(
        self, metric: str, requires: dict[str, Any]
    ) -> None:
        expect = {"value": 1, "rel": "5%", "ratio_to": {"metric": "time"}}
        one = entry(expect, severity="info", where={"n": 1}, metric=metric, requires=requires)

        status = "not_comparable" if requires else "missing"
        assert self.told(one, self.FAILED[0]) == [("e1", status, "info")]


def test_losing_one_of_two_points_is_no_better_than_having_both() -> None:
    one = entry({"value": 1, "rel": "5%"})
    told = [result(f"run[n={n}]", "time", 1.0) for n in (1, 2)]
    jobs = history(job("run[n=1]"), job("run[n=2]"))

    for results in (told, told[:1], told[1:]):
        items = reconcile(ledger(one), results, jobs, Conditions())

        (item,) = (item for item in items if item.is_predicted)
        assert (item.status, item.measured) == ("missing", None)
        assert exit_code(jobs, items, ()) == 3


class TestOrder:
    def test_the_worst_come_first(self) -> None:
        entries = ledger(
            entry({"value": 100, "rel": "5%"}, id="hit"),
            entry({"value": 50, "rel": "5%"}, id="far"),
            entry({"value": 90, "rel": "5%"}, id="near"),
            entry({"value": 10, "rel": "5%"}, id="info", severity="info"),
            entry({"value": 1, "rel": "5%"}, id="gone", metric="gone"),
            entry({"value": 1, "rel": "5%"}, id="other", requires={"x": 1}),
        )

        items = reconcile(
            entries,
            [measured(100.0), result("run", "extra", 1.0)],
            history(job("run")),
            Conditions(),
        )

        assert [item.id for item in items] == [
            "far",
            "near",
            "info",
            "gone",
            "other",
            "hit",
            "extra",
        ]

    def test_every_entry_has_exactly_one_item(self) -> None:
        entries = [entry({"value": 1, "rel": "5%"}, id=f"e{n}") for n in range(5)]

        items = reconcile(ledger(*entries), [], History(), Conditions())

        assert sorted(item.id for item in items) == [one.id for one in entries]
