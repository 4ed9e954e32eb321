"""The same review, one question after the other."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from rich.console import Console

from orchestrator.report.view import RunView
from orchestrator.review import tty
from orchestrator.review.desk import Desk


def answering(*answers: str) -> Callable[[str], str]:
    waiting: Iterator[str] = iter(answers)

    def ask(_question: str) -> str:
        try:
            return next(waiting)
        except StopIteration:
            raise EOFError from None

    return ask


def told(desk: Desk, *answers: str) -> tuple[object, str]:
    console = Console(file=io.StringIO(), width=120)
    done = tty.review(desk, console, answering(*answers))
    assert isinstance(console.file, io.StringIO)
    return done, console.file.getvalue()


def test_each_open_subject_is_asked_about(view: RunView) -> None:
    desk = Desk(view)
    done, text = told(desk, "a", "tails cost three microseconds", "r", "too slow", "l")
    assert done is not None
    assert "1 of 3" in text
    assert "decides: the next step" in text
    assert [s.id for s in desk.open] == ["ledger:never"]


def test_a_short_reason_is_asked_for_again(view: RunView) -> None:
    desk = Desk(view)
    _, text = told(desk, "a", "ok", "a", "tails cost three microseconds", "q")
    assert "needs a reason" in text
    assert [s.id for s in desk.open] == ["ledger:time.two", "ledger:never"]


def test_leaving_keeps_what_was_decided(view: RunView) -> None:
    desk = Desk(view)
    done, text = told(desk, "x", "r", "", "q")
    assert done is None
    assert "2 still open" in text
    assert len(Desk(view).open) == 2


def test_the_end_of_input_leaves_too(view: RunView) -> None:
    done, _ = told(Desk(view), "a")
    assert done is None


def test_a_capital_letter_answers_for_all_that_are_alike(view: RunView) -> None:
    desk = Desk(view)
    questions: list[str] = []
    answers = iter(["A", "the shift is meant", "l"])

    def ask(question: str) -> str:
        questions.append(question)
        return next(answers)

    done = tty.review(desk, Console(file=io.StringIO()), ask)

    assert done is not None
    assert "[A]" not in questions[2], "nothing is like it"
    assert "[A] or [R] also for the other one: time miss" in questions[0]
    assert [s.id for s in desk.open] == ["ledger:never"]
    assert {d.reason for d in desk.review.decisions} == {"the shift is meant"}


def test_what_was_decided_otherwise_stays(view: RunView) -> None:
    desk = Desk(view)
    desk.decide("ledger:time.two", "rejected", "too slow")

    told(desk, "A", "the shift is meant", "l")

    assert [d.verdict for d in desk.review.decisions] == ["rejected", "accepted"]
