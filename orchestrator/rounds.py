"""The rounds of a project: all its runs that are home, oldest first."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from orchestrator import reading
from orchestrator.diff import code
from orchestrator.errors import EvidenceError, InputError
from orchestrator.store import check, results, rundir
from orchestrator.store.history import History
from orchestrator.store.record import RunRecord
from orchestrator.store.results import Result
from orchestrator.store.rundir import RunDir
from orchestrator.verdict.conditions import Conditions
from orchestrator.verdict.measured import NotMeasured, quantity
from orchestrator.verdict.trend import Run, Trend, has, is_number, trends


def over_time(
    artifacts: Path, metric: str, where: Mapping[str, Any], experiment: str = ""
) -> tuple[Sequence[Trend], Sequence[str]]:
    """The trend of a metric at every point that `where` leaves, and the runs left out.

    Raises:
        InputError: no run measured it; the names that come closest are in the message.
    """
    home = runs_at_home(artifacts, experiment)
    found = trends(home.runs, metric, where, changed_files)
    if all(one.value is None for trend in found for one in trend.rounds):
        raise InputError(
            _nothing(home.runs, metric, where) + _unread(home.runs),
            fix="orch show RUN lists what was measured",
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
    rundir.unpack_again(folder)
    try:
        check.present(folder)
    except EvidenceError:
        gone = f"evidence missing; orch fetch {record.run_id}"
        return Run(record, History(), (), Conditions(), gone)
    check.what_is_read(folder, record)
    history = reading.known_history(folder)
    measured = results.read(folder.evidence, history)
    conditions = reading.known_conditions(folder, history)
    return Run(record, history, measured.found, conditions, unreadable=measured.problems)


@functools.cache
def changed_files(old_tree: str, new_tree: str) -> tuple[str, ...]:
    """The paths in which two trees differ; none where the repository here does not hold them."""
    return tuple(change.path for change in code.compare(old_tree, new_tree).files)


def _nothing(runs: Sequence[Run], metric: str, where: Mapping[str, Any]) -> str:
    measured = [r for run in runs for r in run.results]
    names = sorted({r.metric for r in measured})
    if metric in names:
        return _no_number(runs, metric, where)
    close = get_close_matches(metric, names, 3)
    hint = f"; close to it: {', '.join(close)}" if close else ""
    known = "is known to have measured" if any(run.unreadable for run in runs) else "measured"
    return f"no run of {len(runs)} {known} `{metric}`{hint}"


def _unread(runs: Sequence[Run]) -> str:
    """That it may have been measured where nobody can read it."""
    silent = [run for run in runs if run.unreadable]
    if not silent:
        return ""
    last = silent[-1]
    return f"; {last.record.run_id} has an unreadable result: {last.unreadable[0]}"


def _no_number(runs: Sequence[Run], metric: str, where: Mapping[str, Any]) -> str:
    """What stands where a number was looked for, and where numbers are."""
    measured = [(run, r) for run in runs for r in run.results]
    at = [(run, r) for run, r in measured if r.metric == metric and has(r.point, where)]
    if not at:
        shown = ", ".join(f"{axis}={value}" for axis, value in where.items())
        return f"`{metric}` was measured nowhere at {shown}"
    numbers = {r.metric for _, r in measured if is_number(r.value) and r.metric.strip()}
    run, last = at[-1]
    if last.value is None:
        found = f"`{metric}` has no value in any round; the last says {last.status}"
        found += f": {last.note}" if last.note else ""
    elif is_number(last.value):
        numbers.discard(metric)
        found = f"`{metric}` has no value in any round; of the last: {_why_none(run, last)}"
    else:
        found = f"`{metric}` is not a number: the last round says `{str(last.value)[:40]}`"
    return f"{found}; numbers are: {', '.join(sorted(numbers)[:12]) or 'none'}"


def _why_none(run: Run, last: Result) -> str:
    """Why a run that recorded numbers has none that stands for them."""
    try:
        found = quantity(last.metric, last.step, last.point, run.recorded)
    except NotMeasured as error:
        return str(error)
    return f"`{found.value}`"
