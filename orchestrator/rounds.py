"""The rounds of a project: all its runs that are home, oldest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from orchestrator import reading
from orchestrator.errors import EvidenceError, InputError
from orchestrator.store import results, rundir
from orchestrator.store.record import RunRecord
from orchestrator.store.rundir import RunDir
from orchestrator.verdict.trend import Run, Trend, trends


def over_time(
    artifacts: Path, metric: str, where: Mapping[str, Any], experiment: str = ""
) -> tuple[Sequence[Trend], Sequence[str]]:
    """The trend of a metric at every point that `where` leaves, and the runs left out.

    Raises:
        InputError: no run measured it; the names that come closest are in the message.
    """
    home = runs_at_home(artifacts, experiment)
    found = trends(home.runs, metric, where)
    if not found:
        raise InputError(
            _nothing(home.runs, metric, where), fix="orch show RUN lists what was measured"
        )
    return found, home.damaged


@dataclass(frozen=True)
class Home:
    """The runs that are home, oldest first, and why others could not be read."""

    runs: Sequence[Run]
    damaged: Sequence[str]


def runs_at_home(artifacts: Path, experiment: str = "") -> Home:
    """Every run that is home, of one experiment or of all."""
    runs: list[Run] = []
    damaged: list[str] = []
    for folder in rundir.run_dirs(artifacts):
        try:
            record = folder.read_record()
            if record.state == "home" and experiment in ("", record.experiment):
                runs.append(_read(folder, record))
        except EvidenceError as error:
            damaged.append(error.what)
    return Home(sorted(runs, key=lambda run: run.record.created_at), damaged)


def _read(folder: RunDir, record: RunRecord) -> Run:
    history = reading.known_history(folder)
    measured = results.read(folder.evidence, history).found
    return Run(record, history, measured, reading.known_conditions(folder, history))


def _nothing(runs: Sequence[Run], metric: str, where: Mapping[str, Any]) -> str:
    names = sorted({r.metric for run in runs for r in run.results})
    if metric in names:
        shown = ", ".join(f"{k}={v}" for k, v in where.items())
        return f"`{metric}` was measured as a number nowhere at {shown or 'any point'}"
    close = get_close_matches(metric, names, 3)
    hint = f"; close to it: {', '.join(close)}" if close else ""
    return f"no run of {len(runs)} measured `{metric}`{hint}"
