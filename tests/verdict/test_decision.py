"""What a run comes to: the exit codes, and which of them wins."""

from __future__ import annotations

import pytest

from orchestrator.store.history import History
from orchestrator.verdict import decision
from orchestrator.verdict.item import Item
from tests.verdict.runs import history, job


def item(status: str, severity: str = "blocker") -> Item:
    return Item("e", status, "m", {}, severity=severity)


def predicted(status: str, severity: str = "blocker") -> Item:
    return Item("e", status, "m", {}, severity=severity, expected="= 1")


PASSED = ["passed", "passed"]


@pytest.mark.parametrize(
    ("states", "items", "code"),
    [
        (PASSED, [], 0),
        (PASSED, [item("hit")], 0),
        (PASSED, [item("new", "info")], 0),
        (PASSED, [item("miss", "info")], 0),
        (PASSED, [item("missing", "info")], 0),
        (PASSED, [item("miss")], 1),
        (PASSED, [item("missing")], 3),
        (PASSED, [item("not_comparable")], 3),
        (PASSED, [item("missing"), item("miss")], 1),
        (["passed", "failed"], [item("hit")], 1),
        (["passed", "timed_out"], [], 1),
        (["failed", "skipped"], [], 1),
        (["failed", "host_lost"], [], 1),
        (["passed", "host_lost"], [item("hit")], 3),
        (["passed", "not_started"], [], 3),
        (["passed", "skipped"], [], 3),
        (["passed", "running"], [], 3),
        (["passed", "waiting"], [], 3),
        (["passed", "cancelled"], [item("hit")], 6),
        (["failed", "cancelled"], [item("miss")], 6),
        ([], [], 3),
        ([], [item("hit")], 3),
    ],
)
def test_exit_code(states: list[str], items: list[Item], code: int) -> None:
    jobs = history(*(job(f"j{n}", state) for n, state in enumerate(states)))

    assert decision.exit_code(jobs, items, ()) == code


def test_no_evidence_is_never_a_pass() -> None:
    assert decision.exit_code(History(), [], ()) != 0


@pytest.mark.parametrize(
    ("states", "items", "code"),
    [
        (PASSED, [], 3),
        (PASSED, [item("hit")], 3),
        (PASSED, [item("miss")], 1),
        (["passed", "failed"], [], 1),
        (["passed", "cancelled"], [], 6),
    ],
)
def test_what_was_recorded_and_cannot_be_read_is_no_pass(
    states: list[str], items: list[Item], code: int
) -> None:
    jobs = history(*(job(f"j{n}", state) for n, state in enumerate(states)))

    assert decision.exit_code(jobs, items, ["a: results.jsonl:1: not a result"]) == code


@pytest.mark.parametrize(
    ("code", "items", "words"),
    [
        (0, [], "all steps passed; nothing was predicted"),
        (0, [item("new", "info")], "all steps passed; nothing was predicted"),
        (0, [item("missing", "info")], "all steps passed; nothing was predicted"),
        (0, [predicted("hit"), item("new", "info")], "all as predicted"),
        (0, [predicted("hit"), predicted("miss", "info")], "no blocker missed"),
        (0, [predicted("hit"), item("missing", "info")], "no blocker missed"),
        (1, [predicted("miss")], "not as predicted"),
        (1, [predicted("miss", "info")], "a step did not pass"),
        (3, [item("missing")], "not fully measured"),
        (6, [predicted("hit")], "cancelled"),
    ],
)
def test_words_claim_no_more_than_was_predicted(code: int, items: list[Item], words: str) -> None:
    assert decision.words(code, items) == words
