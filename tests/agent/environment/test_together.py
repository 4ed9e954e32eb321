from __future__ import annotations

import threading
import time

from orchestrator.agent.environment.probe import Command, Deadline
from orchestrator.agent.environment.together import Job, ProbeError, ask_all, together

from .conftest import SLACK_S


def test_questions_are_asked_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=5)
    jobs = [Job(name, 5, lambda deadline: meeting.wait() >= 0) for name in "abc"]

    assert together(jobs, Deadline(8)) == {"a": True, "b": True, "c": True}


def test_answers_come_in_the_order_of_the_questions() -> None:
    first_done = threading.Event()
    jobs = [
        Job("slow", 5, lambda deadline: first_done.wait(5)),
        Job("quick", 5, lambda deadline: first_done.set() is None),
    ]

    assert list(together(jobs, Deadline(8)).items()) == [("slow", True), ("quick", True)]


def test_one_that_never_comes_back_is_told_and_the_others_are_kept() -> None:
    never = threading.Event()
    jobs = [
        Job("stuck", 0.2, lambda deadline: never.wait()),
        Job("quick", 5, lambda deadline: True),
    ]
    started = time.monotonic()

    result = together(jobs, Deadline(0.6))
    never.set()

    assert time.monotonic() - started < 0.6 + SLACK_S
    assert result["quick"] is True
    assert str(result["stuck"]) == "did not answer within 0.2 s"


def test_one_that_breaks_tells_where_and_how() -> None:
    def broken(deadline: Deadline) -> int:
        return int("no number")

    result = together([Job("broken", 5, broken)], Deadline(5))["broken"]

    assert isinstance(result, ProbeError)
    assert str(result).startswith("the probe broke at test_together.py:")
    assert "no number" in str(result)


def test_each_question_gets_its_own_limit_inside_the_deadline() -> None:
    limits = together(
        [Job("short", 0.5, lambda d: d.seconds), Job("long", 60, lambda d: d.seconds)], Deadline(10)
    )

    assert limits["short"] == 0.5
    assert 9 < limits["long"] < 10


def test_nothing_to_ask_is_answered_at_once() -> None:
    assert together([], Deadline(5)) == {}


def test_every_command_has_an_answer() -> None:
    commands = {
        "good": Command(("echo", "hi")),
        "bad": Command(("/bin/sh", "-c", "exit 9")),
        "late": Command(("sleep", "60")),
    }

    answers = ask_all(commands, 0.4, Deadline(5))

    assert answers["good"].output == b"hi\n"
    assert answers["bad"].exit == 9
    assert answers["late"].problem == "did not answer within 0.4 s"
