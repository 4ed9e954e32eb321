"""The run's lock: held by one for good, looked at by many."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrator.agent import runlock
from orchestrator.agent.layout import Root, RunFolder
from tests.agent.controller import ROOT, RUN_ID, wait_until


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = Root.at(str(tmp_path)).run(RUN_ID)
    Path(folder.path).mkdir()
    return folder


def test_a_run_that_nobody_ever_held_is_not_supervised(run: RunFolder) -> None:
    assert not runlock.is_supervised(run)


def test_it_is_supervised_until_its_holder_lets_go(run: RunFolder) -> None:
    handle = runlock.hold(run)
    assert runlock.is_supervised(run)
    with pytest.raises(BlockingIOError):
        runlock.hold(run)

    os.close(handle)

    assert not runlock.is_supervised(run)


def test_it_dies_with_its_holder(run: RunFolder) -> None:
    program = (
        "import sys, time; from orchestrator.agent import layout, runlock; "
        f"runlock.hold(layout.RunFolder({run.path!r})); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    wait_until(lambda: runlock.is_supervised(run), "the holder")

    holder.kill()
    holder.wait(30)

    assert not runlock.is_supervised(run)


@pytest.fixture
def looker(run: RunFolder) -> int:
    """Somebody who looks just now, as a list or a follower does."""
    handle = os.open(run.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def test_somebody_who_looks_too_is_not_taken_for_the_supervisor(
    run: RunFolder, looker: int
) -> None:
    assert not runlock.is_supervised(run)

    os.close(looker)


def test_somebody_who_looks_keeps_no_supervisor_from_starting(run: RunFolder, looker: int) -> None:
    leaving = threading.Timer(0.1, os.close, [looker])
    leaving.start()

    handle = runlock.hold(run)

    leaving.join()
    assert runlock.is_supervised(run)
    os.close(handle)
