"""What the rounds of a project say of a metric that has no number in any of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator import rounds
from orchestrator.errors import InputError
from orchestrator.store.results import Result
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.trend import Run
from tests.verdict.runs import history, job, record, result


def why_not(monkeypatch: pytest.MonkeyPatch, metric: str, *results: Result) -> str:
    run = Run(record("r1"), history(job("run")), results, Conditions())
    monkeypatch.setattr(rounds, "runs_at_home", lambda *_: rounds.Home([run], ()))
    with pytest.raises(InputError) as caught:
        rounds.over_time(Path(), metric, {})
    return str(caught.value)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"round": 1}, "the median of the rounds is beyond every float: 1.7e+308, 1.7e+308"),
        ({"round": 1, "unit": "ms"}, "recorded in several units: ['ms', 'us']"),
        ({}, "recorded 2 times in one round of run; give each its own `point`"),
    ],
)
def test_numbers_that_come_to_none_have_a_reason(
    monkeypatch: pytest.MonkeyPatch, second: dict[str, Any], reason: str
) -> None:
    told = [result("run", "big", 1.7e308), result("run", "big", 1.7e308, **second)]

    why = why_not(monkeypatch, "big", *told, result("run", "time", 1.0))

    assert why.startswith(
        f"`big` has no value in any round; of the last: {reason}; numbers are: time"
    )


@pytest.mark.parametrize("value", ["triton", True])
def test_what_is_no_number_is_told_beside_the_named_ones(
    monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    others = [result("run", name, 1.0) for name in ("", " ", "time")]

    why = why_not(monkeypatch, "kind", result("run", "kind", value, ""), *others)

    words = f"`kind` is not a number: the last round says `{value}`; numbers are: time"
    assert why.startswith(words)
