"""The end of a process, read from the kernel's word about it."""

from __future__ import annotations

import os
import subprocess

import pytest

from orchestrator.agent import outcome


def status_of(script: str) -> int:
    """The wait status of a real shell."""
    process = subprocess.Popen(["bash", "-c", script])
    _, status = os.waitpid(process.pid, 0)
    process.returncode = 0
    return status


@pytest.mark.parametrize(
    ("script", "state", "code", "signal", "was_killed"),
    [
        ("exit 0", "passed", 0, None, False),
        ("exit 3", "failed", 3, None, False),
        ("kill -SEGV $$", "failed", None, "SEGV", False),
        ("kill -KILL $$", "failed", None, "KILL", True),
        ("bash -c 'kill -KILL $$'; exit $?", "failed", 137, None, True),
    ],
)
def test_of_a_real_process(
    script: str, state: str, code: int | None, signal: str | None, was_killed: bool
) -> None:
    found = outcome.of_status(status_of(script))

    assert (found.state, found.exit_code, found.signal) == (state, code, signal)
    assert found.was_killed is was_killed
