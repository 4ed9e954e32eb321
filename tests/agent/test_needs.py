"""Skipping what a step needs and does not have: no evidence is never a pass."""

from __future__ import annotations

import pytest

from orchestrator.agent import needs


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (["passed", "passed"], ""),
        ([], "needs `build`, which did not run"),
        (["passed", "failed"], "needs `build`, which failed"),
        (["timed_out"], "needs `build`, which timed out"),
        (["skipped"], "needs `build`, which was skipped"),
        (["cancelled"], "needs `build`, which was cancelled"),
        (["host_lost"], "needs `build`, which did not run"),
    ],
)
def test_a_step_is_there_only_when_all_its_jobs_passed(states: list[str], why: str) -> None:
    assert needs.blocker(["build"], {"build": states}.__getitem__) == why


def test_the_first_one_in_the_way_is_named() -> None:
    states = {"a": ["passed"], "b": ["failed"], "c": []}

    assert needs.blocker(["a", "b", "c"], states.__getitem__) == "needs `b`, which failed"
    assert needs.blocker([], states.__getitem__) == ""
