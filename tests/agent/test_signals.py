"""What wakes a supervisor that waits, and what must not end it."""

from __future__ import annotations

import select
import signal
import subprocess
import sys

import pytest

from orchestrator.agent.signals import signal_name
from tests.agent.controller import ROOT

PROGRAM = """
import select, sys
from orchestrator.agent.signals import wake_on_signals
heard = []
wake = wake_on_signals(heard.append)
print("ready", flush=True)
if not select.select([wake], [], [], 30)[0]:
    sys.exit("nothing woke it")
print([int(number) for number in heard], flush=True)
"""


def start() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD])
def test_a_signal_wakes_whoever_waits_and_is_told(number: signal.Signals) -> None:
    with start() as process:
        process.send_signal(number)

        out, _ = process.communicate(timeout=30)

    assert (process.returncode, out) == (0, f"[{int(number)}]\n")


def test_a_closed_terminal_does_not_end_it() -> None:
    with start() as process:
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 0.2)
        assert (ready, process.poll()) == ([], None)
        process.send_signal(signal.SIGTERM)

        out, _ = process.communicate(timeout=30)

    assert (process.returncode, out) == (0, f"[{int(signal.SIGTERM)}]\n")


def test_a_real_time_signal_is_named_by_its_distance() -> None:
    assert signal_name(signal.SIGRTMIN + 6) == "RTMIN+6"
    assert signal_name(signal.SIGKILL) == "KILL"
