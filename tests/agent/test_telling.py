"""What the journal is told, in which order, and what counts as told."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.agent import journal
from orchestrator.agent.journal import Journal
from orchestrator.agent.outcome import Outcome
from orchestrator.agent.reserve import Reserve
from orchestrator.agent.telling import Teller
from tests.agent.controller import job


def test_what_happened_before_the_start_stands_behind_it_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.jsonl")
    teller = Teller()
    teller.tell(journal.CACHES, state="cold")
    teller.note("warning", "early")
    assert not Path(path).exists(), "a run that has not started has no journal"

    teller.start(path, Reserve(str(tmp_path / "reserve")), run_id="r")
    teller.note("warning", "late")

    events = journal.read(path)
    assert [e["event"] for e in events] == ["run_started", "caches", "note", "note"]
    assert [e["text"] for e in events[2:]] == ["early", "late"]
    assert [e["n"] for e in events] == [0, 1, 2, 3]


def test_states_are_counted_by_step_and_by_state(tmp_path: Path) -> None:
    teller = Teller()
    teller.start(str(tmp_path / "journal"), Reserve(str(tmp_path / "reserve")))

    for name, state in (("a[x=1]", "passed"), ("a[x=2]", "failed"), ("b", "passed")):
        teller.job_ended(job(name, "true"), Outcome(state))

    assert teller.states_of("a") == ["passed", "failed"]
    assert list(teller.states_of("c")) == []
    assert teller.counts == {"passed": 2, "failed": 1}
    assert teller.ended_jobs == 3


def test_an_end_that_could_not_be_written_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next job would otherwise be the one without a last word."""
    path = str(tmp_path / "journal")
    teller = Teller()
    teller.start(path, Reserve(str(tmp_path / "reserve")))
    real = Journal._append
    full = [True]

    def append(self: Journal, line: bytes) -> None:
        if full.pop() if full else False:
            raise OSError(28, "No space left on device")
        real(self, line)

    monkeypatch.setattr(Journal, "_append", append)

    with pytest.raises(OSError, match="No space left"):
        teller.job_ended(job("one", "true"), Outcome("passed"))
    assert teller.ended_jobs == 0
    teller.job_ended(job("one", "true"), Outcome("failed"))

    assert teller.counts == {"failed": 1}
    assert [e["state"] for e in journal.read(path) if e["event"] == "step_ended"] == ["failed"]
