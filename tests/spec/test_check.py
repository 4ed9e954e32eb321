"""Thousands of steps, points and entries are checked without going through all for each."""

from __future__ import annotations

import pytest

from orchestrator.spec import matrix
from orchestrator.spec.check import experiment_problems, ledger_problems
from orchestrator.spec.document import Document
from orchestrator.spec.expand import ordered
from orchestrator.spec.experiment import Experiment, Matrix, Step
from orchestrator.spec.ledger import Ledger
from orchestrator.spec.model import nearest

NOWHERE = Document("e.yaml", {}, {}, {})


def chain(count: int, last_needs: str = "") -> Experiment:
    """Steps that each need the next one."""
    steps = [{"id": f"s{n}", "run": "true", "needs": [f"s{n + 1}"]} for n in range(count)]
    last = {"id": f"s{count}", "run": "true", "needs": [last_needs] if last_needs else []}
    return Experiment.model_validate({"experiment": "e", "timeout": "1s", "steps": [*steps, last]})


def test_a_row_of_thousands_of_needs_is_no_cycle() -> None:
    assert list(experiment_problems(chain(3000), NOWHERE)) == []


def test_a_cycle_of_thousands_is_told() -> None:
    (told,) = experiment_problems(chain(3000, last_needs="s2998"), NOWHERE)

    assert told.what == "steps need each other: s2998 -> s2999 -> s3000 -> s2998"


def test_the_first_unknown_needs_have_a_hint() -> None:
    """Each of 13,000 was compared with the names of 13,000 steps, for minutes."""
    steps = [{"id": f"s{n}", "run": "true", "needs": [f"s{n}x"]} for n in range(150)]
    text = {"experiment": "e", "timeout": "1s", "steps": steps}

    told = list(experiment_problems(Experiment.model_validate(text), NOWHERE))

    assert [bool(problem.fix) for problem in told] == [True] * 100 + [False] * 50


def test_of_thousands_of_words_none_is_the_nearest() -> None:
    words = [f"s{number}" for number in range(1001)]

    assert nearest("s1x", words[:1000]) == "s1"
    assert nearest("s1x", words) == ""


def test_steps_follow_what_they_need_in_the_order_of_the_file() -> None:
    steps = [("d", ("b", "b")), ("a", ()), ("c", ("a",)), ("b", ("c",)), ("e", ())]
    made = tuple(Step(id=name, run="true", needs=needs) for name, needs in steps)

    assert [step.id for step in ordered(made)] == ["a", "c", "b", "d", "e"]


def test_thousands_of_steps_are_ordered() -> None:
    assert [step.id for step in ordered(chain(3000).steps)] == [f"s{3000 - n}" for n in range(3001)]


def test_points_are_gone_through_once_for_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 points and 1000 entries took 31 s, now 2."""
    asked = []
    inner = matrix.points

    def points(one: Matrix | None) -> tuple[matrix.Point, ...]:
        asked.append(one)
        return inner(one)

    monkeypatch.setattr(matrix, "points", points)
    step = {"id": "s", "run": "true", "matrix": {"a": list(range(50)), "b": ["x", 1]}}
    experiment = Experiment.model_validate({"experiment": "e", "timeout": "1s", "steps": [step]})
    wheres = [{"a": n, "other": n} for n in range(40)] + [{"a": 1, "b": "y"}, {"b": 1.0}]
    entries = [
        {
            "id": f"e{number}",
            "metric": "t",
            "where": where,
            "expect": {"value": 1, "rel": "5%"},
            "because": "the closed form",
            "source": "closed_form",
        }
        for number, where in enumerate(wheres)
    ]
    ledger = Ledger.model_validate({"ledger": "e", "entries": entries})

    (told,) = ledger_problems(experiment, ledger, NOWHERE)

    assert "no point of the experiment has a: 1, b: y" in told.what
    assert len(asked) == 3
