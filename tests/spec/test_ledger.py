from __future__ import annotations

import pytest

from orchestrator.errors import SpecError
from orchestrator.spec import formula
from orchestrator.spec.document import parse
from orchestrator.spec.ledger import read_ledger

ENTRY = """
ledger: e
entries:
  - id: one
    {quantity}
    unit: us
    expect: {expect}
    because: the closed form says so
    source: closed_form
"""


def ledger(expect: str, quantity: str = "metric: time") -> object:
    return read_ledger(parse(ENTRY.format(expect=expect, quantity=quantity), "l.yaml"))


@pytest.mark.parametrize(
    "expect",
    [
        "{value: 640, rel: 5%}",
        "{value: 0, abs: 3}",
        "{interval: [1, 2]}",
        "{interval: [null, 2]}",
        "{value: 3, exact: true}",
        "{value: triton, exact: true}",
        "{hash: 84a516841ba77a5b4648de2cd0dfcb30ea46dbb4}",
        "{ratio_to: {metric: other}, interval: [0.5, 1]}",
    ],
)
def test_expectations_that_can_fail(expect: str) -> None:
    ledger(expect)


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ("{value: 640}", "a value without a tolerance"),
        ("{value: 640, rel: 100%}", "cannot fail"),
        ("{value: 0, rel: 5%}", "`rel` of zero is no tolerance"),
        ("{value: 1.0e-299, rel: 1%}", "narrower than what can be measured"),
        ("{value: 1.0e-300, rel: 1.0e-300}", "narrower than what can be measured"),
        ("{value: 1, abs: 1.0e-320}", "narrower than what can be measured"),
        ("{interval: [0, 5.0e-324]}", "narrower than what can be measured"),
        ("{value: 640, abs: 0}", "`abs` is not positive"),
        ("{interval: [null, null]}", "cannot fail"),
        ("{interval: [2, 1]}", "swap the two"),
        ("{interval: [2, 2]}", "one value"),
        ("{value: 1, exact: true, rel: 5%}", "a tolerance beside `exact`"),
        ("{value: 1, interval: [1, 2]}", "value and interval are given"),
        ("{exact: true}", "nothing is expected"),
        ("{hash: xyz}", "expect.hash"),
        ("{value: fast, rel: 5%}", "`fast` is no number"),
        ("{ratio_to: {}, value: 1, rel: 5%}", "either `entry` or `metric`"),
        ("{ratio_to: {metric: other}, value: true, exact: true}", "a ratio is never `true`"),
        ("{ratio_to: {metric: other}, value: fast, exact: true}", "a ratio is never `fast`"),
        (
            "{ratio_to: {metric: other}, hash: 84a516841ba77a5b4648de2cd0dfcb30ea46dbb4}",
            "a ratio of hashes",
        ),
        ("{ratio_to: {entry: nobody}, value: 1, rel: 5%}", "no entry has the id `nobody`"),
    ],
)
def test_expectations_that_cannot_fail_or_make_no_sense(expect: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        ledger(expect)

    assert words in str(caught.value)


NINES = "9" * 400


@pytest.mark.parametrize(
    ("expect", "column"),
    [
        (f"{{value: {NINES}, rel: 5%}}", 21),
        (f"{{value: {NINES}, exact: true}}", 21),
        ("{value: .inf, rel: 5%}", 21),
        ("{value: .nan, exact: true}", 21),
        ("{value: 1.0e+305, rel: 5%}", 13),
        (f"{{value: 1, rel: {NINES}}}", 29),
        (f"{{value: 1, rel: {NINES}%}}", 29),
        ("{value: 1, rel: .nan}", 29),
        (f"{{value: 1, abs: {NINES}}}", 29),
        (f"{{value: 1, abs: '{NINES}'}}", 29),
        ("{value: 1, abs: .inf}", 29),
        ("{value: 1, abs: .nan}", 29),
        (f"{{interval: [{NINES}, null]}}", 25),
        ("{interval: [.nan, 1]}", 25),
        ("{interval: [-.inf, 1]}", 25),
        ("{interval: [0, 1.7e+308]}", 28),
    ],
)
def test_numbers_that_no_measured_value_compares_with(expect: str, column: int) -> None:
    with pytest.raises(SpecError) as caught:
        ledger(expect)

    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (7, column)
    assert "too large" in problem.what or "finite" in problem.what or "compared" in problem.what
    assert problem.expected


@pytest.mark.parametrize(
    ("quantity", "words"),
    [
        ("metric: Time", "entries[0].metric"),
        ("compute: a +", "is not an expression"),
        ("compute: __import__('os')", "calls `__import__`"),
        ("compute: open(a)", "calls `open`"),
        ("compute: a if b else c", "more than arithmetic"),
        ("compute: a.b[0]", "more than arithmetic"),
        ("unit: us", "stands twice"),
    ],
)
def test_quantities_that_are_not_one_number(quantity: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        ledger("{value: 1, rel: 5%}", quantity)

    assert words in str(caught.value)


def test_a_formula_names_metrics_with_dots() -> None:
    expression = "max(l0.fused - l0.gemm, 0) / 2 ** n"

    assert formula.metrics(expression) == ("l0.fused", "l0.gemm", "n")
    assert formula.evaluate(expression, {"l0.fused": 10, "l0.gemm": 4, "n": 1}) == 3


def test_names_that_look_alike_in_a_formula_are_two() -> None:
    assert formula.evaluate("a.b - a__b", {"a.b": 5.0, "a__b": 3.0}) == 2
    assert formula.evaluate("max(max, metric_0) + a", {"max": 1, "metric_0": 2, "a": 4}) == 6


@pytest.mark.parametrize("expression", ["1 / (a - a)", "9 ** 9 ** 9 ** a", "log(0 - a)"])
def test_a_formula_without_a_value_says_so(expression: str) -> None:
    with pytest.raises(formula.FormulaError, match=r"has no value|is inf"):
        formula.evaluate(expression, {"a": 5.0})
