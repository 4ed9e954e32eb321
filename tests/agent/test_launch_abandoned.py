"""A supervisor that is not to begin: it is waited for, so that it leaves no file behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrator.agent import launch
from orchestrator.agent.launch import Launch
from tests.agent.controller import ROOT


@pytest.fixture
def pipes() -> tuple[Launch, int, int]:
    """A launch whose supervisor is this test: its end of `go` and its end of `ready`."""
    under_way = Launch.__new__(Launch)
    go, under_way._go = os.pipe()
    under_way._ready, ready = os.pipe()
    under_way._under_way = True
    return under_way, go, ready


def test_abandoning_returns_when_the_supervisor_has_ended(pipes: tuple[Launch, int, int]) -> None:
    under_way, go, ready = pipes
    ended: list[str] = []

    def supervise() -> None:
        assert os.read(go, 2) == b""
        ended.append("removed what it had made")
        os.close(ready)

    supervisor = threading.Thread(target=supervise)
    supervisor.start()
    under_way.abandon()

    assert ended
    supervisor.join(10)
    os.close(go)


def test_abandoning_waits_no_longer_than_its_deadline(
    pipes: tuple[Launch, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_ENDING_S", 0.05)
    under_way, go, ready = pipes

    under_way.abandon()
    under_way.abandon()  # again is harmless

    assert os.read(go, 2) == b""
    os.close(go)
    os.close(ready)


def test_a_supervisor_knows_that_nobody_can_let_it_begin() -> None:
    go, ours = os.pipe()
    assert not launch._is_abandoned(go)

    os.write(ours, b"go")
    assert not launch._is_abandoned(go)

    os.close(ours)
    assert launch._is_abandoned(go)
    os.close(go)


PROGRAM = """
import os, sys
from types import SimpleNamespace
from orchestrator.agent.launch import _supervise
go, ours = os.pipe()
os.close(ours)
folder = SimpleNamespace(path=sys.argv[1], supervisor_log=sys.argv[1] + "/gone/supervisor.log")
_supervise(None, folder, None, {}, go, os.open(os.devnull, os.O_WRONLY))
"""


def test_one_that_fails_then_removes_its_run(tmp_path: Path) -> None:
    """Its folder is removed under it, and a file that it makes since brings it back."""
    path = tmp_path / "run"
    path.mkdir()

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert "FileNotFoundError" in done.stderr
    assert not path.exists()
