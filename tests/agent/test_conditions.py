"""What the host does not tell is told as such, and is never a free GPU or a clean snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import conditions, environment, journal, leases
from orchestrator.agent.layout import Root, RunFolder
from orchestrator.agent.leases import NoGpu
from orchestrator.agent.reserve import Reserve
from orchestrator.agent.telling import Teller
from tests.agent.controller import RUN_ID


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = Root.at(str(tmp_path)).run(RUN_ID)
    Path(folder.path).mkdir()
    return folder


def told(run: RunFolder, phase: str = "before") -> dict[str, Any]:
    """The event that recording a snapshot leaves in the journal."""
    teller = Teller()
    teller.start(run.journal, Reserve(run.reserve))
    conditions.record(phase, run, {}, teller)
    return journal.read(run.journal)[-1]


def test_a_snapshot_is_in_its_file_and_told(run: RunFolder) -> None:
    event = told(run)

    assert (event["event"], event["phase"]) == ("environment", "before")
    assert json.loads(Path(run.inside(event["file"])).read_text("utf-8"))["phase"] == "before"


def test_one_that_failed_is_an_error_in_the_journal_and_leaves_no_file(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no such bus")

    monkeypatch.setattr(environment, "snapshot", broken)

    event = told(run)

    assert (event["event"], event["level"]) == ("note", "error")
    assert "`before` failed: RuntimeError('no such bus')" in event["text"]
    assert "Traceback" in event["traceback"]
    assert not Path(run.inside("environment.before.json")).exists()


def test_gpus_that_could_not_be_listed_fail_a_step_that_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(deadline_s: float) -> None:
        raise environment.ProbeError("the GPUs of this host could not be listed: nvidia-smi hangs")

    monkeypatch.setattr(environment, "visible_gpus", silent)

    with (
        pytest.raises(NoGpu, match="could not be listed: nvidia-smi hangs"),
        leases.leased(1, str(tmp_path), "me", conditions.list_gpus, 5.0, lambda: False),
    ):
        pytest.fail("nobody knows of a GPU, and one was lent")


def test_a_gpu_that_only_looks_free_is_named() -> None:
    seen = {"index": 0, "foreign_pids": []}
    blind = {"index": 3, "foreign_pids": None}

    assert conditions.unproven([]) == conditions.unproven([seen]) == ""
    assert "nobody can tell who else uses GPU 3:" in conditions.unproven([seen, blind])
