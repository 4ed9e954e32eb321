"""What a side tells of a run: its record, journal, results, conditions, rules and verdict.

The few small files that say so are copied from wherever the side lies into a directory of the
layout that `store` reads; nothing else of the project needs to know about zips and revisions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.diff.blob import PIECE_BYTES
from orchestrator.diff.refusal import Unreadable
from orchestrator.diff.rules import fits
from orchestrator.diff.sides.side import Side
from orchestrator.errors import EvidenceError, OrchError
from orchestrator.spec.compare import CompareRule
from orchestrator.spec.document import load
from orchestrator.spec.experiment import Experiment
from orchestrator.spec.model import validate
from orchestrator.store import history as store_history
from orchestrator.store import results as store_results
from orchestrator.store.history import History
from orchestrator.store.record import RunRecord
from orchestrator.store.results import Results
from orchestrator.store.rundir import RunDir
from orchestrator.verdict import conditions as verdict_conditions
from orchestrator.verdict.conditions import Conditions

_AT_TOP = ("run.json", "experiment.yaml", "verdict.json")
_IN_EVIDENCE = ("journal.jsonl", "environment.before.json", "environment.after.json")
_RESULTS = "steps/*/results.jsonl"
_MOST_BYTES = 256 << 20
# What tells of the run itself is compared as conditions and metrics, never as a file.
_NOT_ARTIFACTS = (
    *_IN_EVIDENCE,
    _RESULTS,
    "plan.json",
    "manifest.json",
    "supervisor.log",
    "activation.log",
    "environment/**",
)


@dataclass(frozen=True)
class Evidence:
    """What is known of the run behind a side; everything is empty where there is none."""

    is_run: bool = False
    run_id: str = ""
    record: RunRecord | None = None
    history: History = field(default_factory=History)
    results: Results = field(default_factory=lambda: Results(()))
    conditions: Conditions = field(default_factory=Conditions)
    rules: tuple[CompareRule, ...] = ()
    items: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def tree(self) -> str:
        """Hash of the source tree that ran; empty when it is not known."""
        if self.record is not None:
            return self.record.tree.host or self.record.tree.local
        return str((self.history.started or {}).get("tree", ""))


def is_artifact(path: str) -> bool:
    """Whether a file of a run is something its steps made."""
    return not any(fits(path, glob) for glob in _NOT_ARTIFACTS)


def gather(side: Side, scratch: Path) -> Evidence:
    """Read what a side tells of its run.

    Raises:
        EvidenceError: a part of it is damaged.
    """
    if "journal.jsonl" not in side.artifacts:
        return Evidence()
    run = RunDir(scratch)
    try:
        _copy(side, run)
        return _read(side, run)
    except EvidenceError as error:
        what = error.what.replace(f"{scratch}/", "")
        raise EvidenceError(f"`{side.name}` cannot be read as a run: {what}") from error
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        # Well-formed JSON of another shape; the readers of `store` expect what the agent wrote.
        raise EvidenceError(f"`{side.name}` cannot be read as a run: {error!r}") from error


def _read(side: Side, run: RunDir) -> Evidence:
    record = run.read_record() if run.record_file.exists() else None
    history = store_history.read(run.evidence / "journal.jsonl")
    caches = str((history.caches or {}).get("state", ""))
    rules, problems = _rules(run)
    results = store_results.read(run.evidence, history)
    return Evidence(
        is_run=True,
        run_id=record.run_id if record else str((history.started or {}).get("run_id", side.name)),
        record=record,
        history=history,
        results=results,
        conditions=verdict_conditions.read(run.evidence, caches),
        rules=rules,
        items=_items(run),
        problems=(*problems, *results.problems),
    )


def _copy(side: Side, run: RunDir) -> None:
    run.evidence.mkdir(parents=True)
    left = _MOST_BYTES
    for path in side.files.entries:
        inner = path.removeprefix(side.prefix)
        if side.prefix and path in _AT_TOP:
            target = run.path / path
        elif path.startswith(side.prefix) and (inner in _IN_EVIDENCE or fits(inner, _RESULTS)):
            target = run.evidence / inner
        else:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        left -= _copy_one(side, path, target, left)


def _copy_one(side: Side, path: str, target: Path, most_bytes: int) -> int:
    entry = side.files.entries[path]
    if entry.problem or entry.size > most_bytes:
        reason = entry.problem or f"is too large with its {entry.size} bytes"
        raise EvidenceError(f"`{path}` of `{side.name}` {reason}")
    try:
        with side.files.blob(path, target.parent).open() as source, target.open("wb") as copy:
            while piece := source.read(PIECE_BYTES):
                copy.write(piece)
    except Unreadable as error:
        raise EvidenceError(f"`{path}` of `{side.name}` {error}") from error
    return entry.size


def _rules(run: RunDir) -> tuple[tuple[CompareRule, ...], tuple[str, ...]]:
    """The rules of the experiment as it was; a file of another version may not be readable."""
    if not run.experiment.exists():
        return (), ()
    try:
        document = load(run.experiment, shown_as="experiment.yaml")
        return validate(Experiment, document).compare, ()
    except OrchError as error:
        return (), (f"experiment.yaml cannot be read; no `compare:` rule of it holds: {error}",)


def _items(run: RunDir) -> tuple[Mapping[str, Any], ...]:
    if not run.verdict.exists():
        return ()
    try:
        held = json.loads(run.verdict.read_bytes())
        items = held["items"] if isinstance(held, dict) else held
        return tuple(item for item in items if isinstance(item, dict) and "id" in item)
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"verdict.json is damaged: {error!r}") from error
