"""A run without its supervisor: ended once, honestly, by whoever finds it first."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import journal, recorded, rescue, runlock
from orchestrator.agent.journal import Journal
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.processes import MARK
from tests.agent.controller import RUN_ID, job, plan, wait_until


@pytest.fixture
def lost(tmp_path: Path) -> RunFolder:
    """Three jobs: the first has passed, the second was under way, the third never began."""
    run = Root.at(str(tmp_path)).run(RUN_ID)
    jobs = [job(name, "true") for name in ("one", "two", "three")]
    Path(run.path).mkdir()
    Path(run.plan).write_text(plan({}, *jobs).to_json(), "utf-8")
    Path(run.step("two")).mkdir(parents=True)
    Path(run.step("two", "log")).write_bytes(b"so far\n")
    log = Journal(run.journal)
    log.write(journal.RUN_STARTED, run_id=RUN_ID)
    log.write(journal.STEP_STARTED, id="one", step="one")
    log.write(journal.STEP_ENDED, id="one", step="one", state="passed", folder="one")
    log.write(journal.STEP_STARTED, id="two", step="two")
    log.close()
    return run


def states(run: RunFolder) -> dict[str, str]:
    events = journal.read(run.journal)
    return {e["id"]: e["state"] for e in events if e["event"] == journal.STEP_ENDED}


def last(run: RunFolder) -> dict[str, Any]:
    return journal.read(run.journal)[-1]


def test_each_job_gets_the_state_that_is_known_of_it(lost: RunFolder) -> None:
    rescue.rescue(lost)

    assert states(lost) == {"one": "passed", "two": "host_lost", "three": "not_started"}
    assert last(lost)["event"] == "run_ended"
    assert last(lost)["counts"] == {"passed": 1, "host_lost": 1, "not_started": 1}
    assert last(lost)["rescued"] is True
    assert [e["n"] for e in journal.read(lost.journal)] == list(range(7))
    assert Path(lost.bundle_facts).exists()


def test_half_a_line_and_what_a_crash_left_of_it_does_not_count(lost: RunFolder) -> None:
    with Path(lost.journal).open("ab") as file:
        file.write(b'{"n":4,"event":"step_ended","id":"two","state":"pas' + bytes(100))

    rescue.rescue(lost)

    assert states(lost)["two"] == "host_lost"


@pytest.mark.parametrize("length", [10, recorded.MAX_LINE_BYTES])
def test_what_a_lost_job_recorded_is_counted_within_the_bounds(
    lost: RunFolder, length: int
) -> None:
    results = Path(lost.step("two", "results.jsonl"))
    results.write_bytes(b'{"metric": "e2e", "value": 1}\n' + b"x" * length + b"\n")

    rescue.rescue(lost)

    ended = next(e for e in journal.read(lost.journal) if e.get("state") == "host_lost")
    notes = [e["text"] for e in journal.read(lost.journal) if e["event"] == journal.NOTE]
    assert ended["results"] == results.read_bytes().count(b"\n") == 1 + (length == 10)
    assert len(notes) == (length > 10), notes


def test_a_second_rescue_changes_nothing(lost: RunFolder) -> None:
    rescue.rescue(lost)
    before = Path(lost.journal).read_bytes(), Path(lost.bundle).read_bytes()

    rescue.rescue(lost)

    assert (Path(lost.journal).read_bytes(), Path(lost.bundle).read_bytes()) == before


def test_a_run_that_somebody_holds_is_left_to_him(lost: RunFolder) -> None:
    handle = runlock.hold(lost)
    before = Path(lost.journal).read_bytes()

    rescue.rescue(lost)

    os.close(handle)
    assert Path(lost.journal).read_bytes() == before
    assert not Path(lost.bundle_facts).exists()


def test_marked_processes_of_a_lost_job_are_killed_and_no_others(lost: RunFolder) -> None:
    started = [
        subprocess.Popen(["sleep", "64.5"], env={MARK: mark, "PATH": os.environ["PATH"]})
        for mark in (f"{RUN_ID}/1", f"{RUN_ID}/11", f"{RUN_ID}-b/1")
    ]
    marks = [Path(f"/proc/{process.pid}/environ") for process in started]
    wait_until(lambda: all(b"ORCH_JOB" in path.read_bytes() for path in marks), "the marks")

    rescue.rescue(lost)

    assert started[0].wait(30) == -9
    assert [process.poll() for process in started[1:]] == [None, None]
    ended = next(e for e in journal.read(lost.journal) if e.get("state") == "host_lost")
    assert ended["leftover"] == ["sleep"]
    for process in started[1:]:
        process.kill()
        process.wait(30)


class TestCancelling:
    def test_what_nobody_supervises_was_not_running(self, lost: RunFolder) -> None:
        """Its process number may be somebody else's by now; nobody is signalled."""
        stranger = subprocess.Popen(["sleep", "65.5"])
        Path(lost.supervisor).write_text(json.dumps({"pid": stranger.pid}), "ascii")

        assert rescue.order_cancel(lost, "me") is False

        assert stranger.poll() is None
        assert not Path(lost.cancel).exists()
        stranger.kill()
        stranger.wait(30)

    def test_a_supervisor_is_told_by_file_and_signal(self, lost: RunFolder) -> None:
        supervisor = subprocess.Popen(["sleep", "66.5"])
        Path(lost.supervisor).write_text(json.dumps({"pid": supervisor.pid}), "ascii")
        handle = runlock.hold(lost)

        assert rescue.order_cancel(lost, "") is True

        assert supervisor.wait(30) == -15
        assert Path(lost.cancel).read_text("ascii") == "somebody"
        os.close(handle)
