"""What is computed of measured quantities: over all rounds, and in each where that is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orchestrator.spec.ledger import Entry
from orchestrator.store.history import History
from orchestrator.store.results import Result
from orchestrator.verdict.derived import computed
from orchestrator.verdict.item import Item
from orchestrator.verdict.measured import NotMeasured
from orchestrator.verdict.recorded import Recorded
from tests.verdict.runs import entry, judged, result


def why_not(expression: str, unit: str, results: Sequence[Result]) -> str:
    with pytest.raises(NotMeasured) as caught:
        computed(expression, unit, None, {}, Recorded(results, History()))
    return str(caught.value)


def in_rounds(metric: str, values: Sequence[float]) -> list[Result]:
    return [result("run", metric, value, round=number) for number, value in enumerate(values)]


class TestComputed:
    RESULTS: tuple[Result, ...] = (
        result("run", "a", 30.0),
        result("run", "b", 0.01, "ms"),
        result("run", "size.out", 8, "By"),
        result("run", "word", "abc", ""),
        result("run", "long", 1e307, "h"),
    )

    @pytest.mark.parametrize(
        ("expression", "unit", "value"),
        [
            ("a - b", "us", 20.0),
            ("a - b", "ms", 0.02),
            ("a / b", "1", 3.0),
            ("max(a, b) - min(a, b)", "us", 20.0),
            ("size.out * 2", "By", 16.0),
        ],
    )
    def test_metrics_are_converted_before_they_meet(
        self, expression: str, unit: str, value: float
    ) -> None:
        found = computed(expression, unit, None, {}, Recorded(self.RESULTS, History()))

        assert found.value == pytest.approx(value)
        assert (found.unit, found.step) == (unit, "run")

    @pytest.mark.parametrize(
        ("expression", "unit", "words"),
        [
            ("a - missing", "us", "no step recorded `missing`"),
            ("a - word", "us", "`word` is `abc`, not a number"),
            ("a - size.out", "us", "`size.out`: measured in `By`, expected in `us`"),
            ("a / (b - b)", "1", "has no value"),
            ("sqrt(b - a)", "1", "has no value"),
            ("(0 - a) ** 0.5", "1", "has no value"),
            ("2 * 3", "1", "names no metric"),
            ("a / long", "1", "`long`: 1e+307 h in us is beyond every float"),
        ],
    )
    def test_what_cannot_be_computed_says_why(self, expression: str, unit: str, words: str) -> None:
        assert words in why_not(expression, unit, results=self.RESULTS)

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (result("run[n=1]", "a", 30.0), result("run[n=2]", "b", 10.0)),
            (result("one[n=1]", "a", 30.0), result("two[n=2]", "b", 10.0)),
            (result("run", "a", 3.0, point={"n": 1}), result("run", "b", 1.0, point={"n": 2})),
            (result("run", "a", 3.0, point={"n": 1}), result("run", "b", 1.0, point={"n": True})),
        ],
        ids=["two jobs", "two steps", "one job", "true is not one"],
    )
    def test_metrics_of_two_points_are_not_computed_with(self, a: Result, b: Result) -> None:
        why = why_not("a - b", "us", results=[a, b])

        assert why.startswith(f"`a` of {a.step}[n=1] and `b` of {b.step}[n=")
        assert why.endswith("were not measured at one point; name the `n` of both in `where`")

    def test_an_axis_that_only_one_has_keeps_nothing_apart(self) -> None:
        results = [
            result("run[n=1]", "a", 30.0),
            result("run[n=1]", "b", 10.0, point={"n": 1, "k": 2}),
            result("other", "c", 1.0),
        ]

        found = computed("a - b - c", "us", None, {}, Recorded(results, History()))

        assert found.value == 19.0

    def test_counts_as_many_rounds_as_its_poorest_part(self) -> None:
        results = [result("run", "a", 1.0, round=r) for r in range(3)]
        results += [result("run", "b", 1.0, round=r) for r in range(2)]

        assert computed("a + b", "us", None, {}, Recorded(results, History())).count == 2


class TestByRound:
    """An exact expectation holds in each round: medians may agree where no round does."""

    P, Q = (1.0, 1.0, 9.0), (1.0, 1.0, 4.0)
    ENTRIES = (
        entry({"value": 0, "exact": True}, compute="p - q"),
        entry({"value": 1, "exact": True, "ratio_to": {"metric": "q"}}, metric="p"),
        entry({"value": 1, "exact": True, "ratio_to": {"entry": "base"}}, compute="p + 0"),
    )

    def judged(self, one: Entry, *results: Result) -> Item:
        base = entry({"interval": [0, None]}, id="base", compute="q * 1")
        return judged(one, *results, others=(base,))

    @pytest.mark.parametrize(
        ("one", "reason"), list(zip(ENTRIES, ("0.0, 5.0", "1.0, 2.25", "1.0, 2.25"), strict=True))
    )
    def test_one_round_that_says_otherwise_is_a_miss(self, one: Entry, reason: str) -> None:
        item = self.judged(one, *in_rounds("p", self.P), *in_rounds("q", self.Q))

        assert (item.status, item.reason) == ("miss", f"the rounds disagree: {reason}")

    @pytest.mark.parametrize("one", ENTRIES)
    def test_rounds_that_agree_are_a_hit_in_whatever_order_they_come(self, one: Entry) -> None:
        item = self.judged(one, *in_rounds("p", self.P), *in_rounds("q", self.P)[::-1])

        assert (item.status, item.count, item.reason) == ("hit", 3, "")

    @pytest.mark.parametrize("one", ENTRIES)
    def test_rounds_that_do_not_match_up_are_missing(self, one: Entry) -> None:
        told = in_rounds("q", self.Q)

        fewer = self.judged(one, *in_rounds("p", self.P), *told[:2])
        others = self.judged(one, *in_rounds("p", self.P)[:2], *told[1:])

        assert (fewer.status, others.status) == ("missing", "missing")
        assert "`exact` holds in each round, and the rounds do not match up: " in fewer.reason
        assert "was measured in #1, #2, #3, " in fewer.reason
        assert fewer.reason.endswith(" in #1, #2")
        assert others.reason.endswith(" in #2, #3")

    def test_a_round_without_a_value_is_missing(self) -> None:
        item = self.judged(
            self.ENTRIES[1], *in_rounds("p", self.P), *in_rounds("q", (1.0, 0.0, 9.0))
        )

        assert item.status == "missing"
        assert item.reason == "no value in round #2: the reference of the ratio is zero"

    def test_what_every_round_says_counts_where_the_medians_say_otherwise(self) -> None:
        one = entry({"value": 2, "exact": True}, compute="p * q")

        item = self.judged(one, *in_rounds("p", (1.0, 2.0)), *in_rounds("q", (2.0, 1.0)))

        assert (item.status, item.measured) == ("hit", 2.0)

    def test_a_tolerance_asks_for_the_medians_alone(self) -> None:
        one = entry({"value": 0, "abs": 1}, compute="p - q")

        item = self.judged(one, *in_rounds("p", self.P), *in_rounds("q", self.Q[:2]))

        assert (item.status, item.measured) == ("hit", 0.0)

    def test_no_hash_is_computed(self) -> None:
        one = entry({"hash": "0" * 40}, compute="p - q")

        item = self.judged(one, *in_rounds("p", self.P), *in_rounds("q", self.P))

        assert (item.status, item.measured) == ("miss", 0.0)


def test_a_whole_number_beyond_the_floats_is_the_same_in_two_rounds() -> None:
    one = entry({"value": 2**53 + 1, "exact": True}, metric="p", unit="us")

    item = judged(one, *in_rounds("p", (2**53 + 1, 2**53 + 1)))

    assert (item.status, item.measured) == ("hit", 2**53 + 1)
