"""Everything a report may show of a run, read once from its directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agent.manifest import FILE_NAME, Manifest, Member
from orchestrator.errors import EvidenceError
from orchestrator.store.history import History
from orchestrator.store.record import RunRecord
from orchestrator.store.results import Result
from orchestrator.store.rundir import RunDir
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.item import Item
from orchestrator.verdict.trend import Trend

LOG_TAIL_BYTES = 64 << 10


@dataclass(frozen=True)
class RunView:
    """A run that is home, with its verdict."""

    folder: RunDir
    record: RunRecord
    history: History
    items: Sequence[Item]
    results: Sequence[Result]
    problems: Sequence[str]
    conditions: Conditions
    members: Sequence[Member] = ()
    question: str = ""
    trends: Sequence[Trend] = ()

    @property
    def exit_code(self) -> int:
        return self.record.exit_code if self.record.exit_code is not None else 3

    def log_tail(self, job_folder: str) -> str:
        """The end of a job's log; empty when it has none."""
        path = self.folder.evidence / "steps" / job_folder / "log"
        try:
            with path.open("rb") as file:
                file.seek(0, 2)
                file.seek(max(file.tell() - LOG_TAIL_BYTES, 0))
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""


def members_of(evidence: Path) -> Sequence[Member]:
    """What the bundle holds.

    Raises:
        EvidenceError: the manifest is missing or damaged.
    """
    try:
        return Manifest.from_json((evidence / FILE_NAME).read_text("utf-8")).members
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{evidence / FILE_NAME} cannot be read: {error}") from error


def question_of(folder: RunDir) -> str:
    """The experiment's question, as the file had it when it ran; empty when it asks none."""
    from orchestrator.spec.document import load

    if not folder.experiment.exists():
        return ""
    data = load(folder.experiment).data
    return str(data.get("question") or "")


def to_json(view: RunView) -> str:
    """The verdict as JSON, for the copy that the report embeds."""
    return json.dumps(
        {
            "run_id": view.record.run_id,
            "exit_code": view.exit_code,
            "items": [item.as_json() for item in view.items],
            "counts": view.history.counts,
        },
        ensure_ascii=False,
    )
