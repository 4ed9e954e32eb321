"""The journal folded into states: from the plan, line by line, and from damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent.plan import Job
from orchestrator.errors import EvidenceError
from orchestrator.store import history
from orchestrator.store.history import History
from orchestrator.store.watched import Spread


def started(job: str, **more: Any) -> dict[str, Any]:
    facts = {"round": 0, "folder": job, "deadline_s": 10.0, "elapsed_s": 1.5, "gpus": []}
    return {"event": "step_started", "id": job, "step": job, **facts, **more}


def ended(job: str, state: str = "passed", **more: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "round": 0,
        "folder": job,
        "point": {"n": 1},
        "state": state,
        "exit_code": 0,
        "signal": None,
        "reason": "",
        "duration_s": 2.0,
        "tail": ["last line"],
    }
    return {"event": "step_ended", "id": job, "step": job, **facts, **more}


def written(path: Path, *events: Any) -> Path:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


PLANNED = [
    Job(id=name, step=name, point={"n": 1}, round=0, folder=name, run="true", timeout_s=10.0)
    for name in ("a", "b")
]


TOLD = {"uuid": "GPU-1", "samples": 3, "sm_mhz": [1, 2, 3.5], "held": {"sw_power_cap": 0.5}}


class TestWatched:
    def test_what_the_gpus_did_is_kept_and_older_journals_tell_nothing(self) -> None:
        over = history.of_plan(PLANNED).after(ended("a", watched=[TOLD])).after(ended("b"))

        (seen,) = over.jobs["a"].watched
        assert (seen.uuid, seen.samples, seen.held) == ("GPU-1", 3, {"sw_power_cap": 0.5})
        assert seen.spreads == {"sm_mhz": Spread(1, 2, 3.5)}
        assert over.jobs["b"].watched == ()

    @pytest.mark.parametrize(
        "wrong",
        [
            {"samples": "many"},
            {"sm_mhz": [1, 2]},
            {"sm_mhz": [1, float("nan"), 3]},
            {"held": 5},
            {"held": {"x": None}},
            {"uuid": None, "samples": None},
        ],
    )
    def test_what_no_agent_tells_is_damage(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(EvidenceError, match="not an event of a journal"):
            history.of_plan(PLANNED).after(ended("a", watched=[{**TOLD, **wrong}]))


class TestFolding:
    def test_a_job_goes_from_waiting_over_running_to_its_end(self) -> None:
        planned = history.of_plan(PLANNED)
        running = planned.after(started("a"))
        over = running.after(ended("a", "failed", exit_code=3, reason="exit code 3"))

        assert planned.jobs["a"].state == "waiting"
        assert (running.jobs["a"].state, running.jobs["a"].started_s) == ("running", 1.5)
        assert not running.jobs["a"].ended
        assert over.jobs["a"].ended
        assert (over.jobs["a"].exit_code, over.jobs["a"].reason) == (3, "exit code 3")
        assert over.jobs["a"].tail == ("last line",)
        assert over.counts == {"failed": 1, "waiting": 1}
        assert running.jobs["a"].state == "running", "histories do not change"

    def test_the_order_is_that_of_the_plan(self) -> None:
        found = history.of_plan(PLANNED).after(started("b")).after(ended("b")).after(ended("a"))

        assert list(found.jobs) == ["a", "b"]

    def test_an_event_that_makes_no_sense_is_evidence_of_nothing(self) -> None:
        with pytest.raises(EvidenceError, match="not an event of a journal"):
            History().after({"event": "step_ended", "id": "a"})

    @pytest.mark.parametrize("wrong", [float("inf"), -5, "many"])
    @pytest.mark.parametrize("key", ["results", "files"])
    def test_numbers_of_nothing_are_not_either(self, key: str, wrong: object) -> None:
        with pytest.raises(EvidenceError, match="not an event of a journal"):
            history.of_plan(PLANNED).after(ended("a", **{key: wrong}))

    def test_a_skipped_job_never_started(self) -> None:
        found = History().after(ended("a", "skipped", reason="needs `b`"))

        assert found.jobs["a"].state == "skipped"
        assert found.jobs["a"].started_s is None

    def test_the_run_itself_and_its_notes(self) -> None:
        found = History()
        for event in (
            {"event": "run_started", "tree": "abc"},
            {"event": "caches", "state": "cold"},
            {"event": "note", "level": "info", "text": "one"},
            {"event": "note", "level": "info", "text": "two"},
            {"event": "something_newer", "x": 1},
            {"event": "run_ended", "counts": {}},
        ):
            found = found.after(event)

        assert found.started == {"event": "run_started", "tree": "abc"}
        assert found.caches is not None
        assert found.ended is not None
        assert [note["text"] for note in found.notes] == ["one", "two"]


class TestReading:
    def test_half_a_line_at_the_end_does_not_count(self, tmp_path: Path) -> None:
        path = written(tmp_path / "journal.jsonl", started("a"))
        path.write_text(path.read_text("utf-8") + json.dumps(ended("a"))[:40], "utf-8")

        assert history.read(path).jobs["a"].state == "running"

    def test_goes_on_from_a_plan(self, tmp_path: Path) -> None:
        path = written(tmp_path / "journal.jsonl", started("a"), ended("a"))

        found = history.read(path, history.of_plan(PLANNED))

        assert found.counts == {"passed": 1, "waiting": 1}

    @pytest.mark.parametrize(
        "line",
        [
            "not json",
            "5",
            "null",
            "[]",
            '{"no": "event"}',
            '{"event": "step_ended"}',
            '{"event": "step_started", "id": ["a"], "step": "a"}',
            json.dumps(ended("a", tail=5)),
            json.dumps(ended("a", leftover=None)),
            json.dumps(ended("a", state="fine")),
            json.dumps(ended("a", folder="../../home")),
            json.dumps(started("a", folder="/etc")),
            json.dumps(ended("a", point={"n": [1]})),
            json.dumps(ended("a", duration_s="long")),
            "[" * 100_000,
            "\x00",
        ],
        ids=range(16),
    )
    def test_a_damaged_line_is_told_with_the_file(self, tmp_path: Path, line: str) -> None:
        path = written(tmp_path / "journal.jsonl", started("b"), line)

        with pytest.raises(EvidenceError, match=r"the journal .*journal\.jsonl cannot be read"):
            history.read(path)

    def test_a_missing_file_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(EvidenceError, match="cannot be read"):
            history.read(tmp_path / "journal.jsonl")
