"""Commands of a review."""

from __future__ import annotations

import subprocess
from functools import partial

from orchestrator import reading
from orchestrator.cli.places import artifacts, project_dir
from orchestrator.diff.comparison import Comparison, between_runs
from orchestrator.errors import InputError
from orchestrator.report.view import RunView
from orchestrator.review.decision import place_of
from orchestrator.review.desk import Desk, Finished
from orchestrator.store import rundir

LEDGER = "ledger"


def review(name: str, against: str, port: int, tty: bool, open_browser: bool) -> int:
    """0 when everything was accepted, 1 when something was rejected, 3 while something is open."""
    view = reading.view(rundir.find(artifacts(), name))
    other = None if against == LEDGER else reading.view(rundir.find(artifacts(), against))
    found = _comparison(other, view)
    differences = [r for r in found.artifacts if r.status != "equal"] if found else []
    desk = Desk(view, other, differences, by=_reviewer(), comparison=found)
    done = _in_terminal(desk) if tty else _in_browser(desk, port, open_browser)
    if done is None:
        print(f"left with {len(desk.open)} open; decisions so far: {place_of(view.folder)}")
        return 3
    _tell(done)
    if done.open:
        return 3
    return 1 if done.rejected else 0


def _in_browser(desk: Desk, port: int, open_browser: bool) -> Finished | None:
    try:
        from orchestrator.review.serve import serve
    except ModuleNotFoundError as error:
        raise InputError(
            f"the review page needs the package `{error.name}`",
            fix="pip install 'gpu-orch[review]', or use --tty",
        ) from error
    return serve(desk, port, open_browser=open_browser, say=partial(print, flush=True))


def _in_terminal(desk: Desk) -> Finished | None:
    from rich.console import Console

    from orchestrator.review import tty

    return tty.review(desk, Console(), input)


def _tell(done: Finished) -> None:
    print(f"{done.accepted} accepted, {done.rejected} rejected, {done.open} open: {done.review}")
    if done.ledger is not None:
        print(
            f"  drafted: {done.ledger}\n  read it, and put it in the place of the ledger yourself"
        )


def _reviewer() -> str:
    """The name git knows the reader by; empty when it knows none."""
    done = subprocess.run(
        ["git", "config", "user.name"],
        cwd=project_dir(), capture_output=True, text=True, timeout=10, check=False,
    )  # fmt: skip
    return done.stdout.strip()


def _comparison(other: RunView | None, view: RunView) -> Comparison | None:
    if other is None:
        return None
    print(f"comparing with {other.record.run_id} ...", flush=True)
    return between_runs(other.folder, view.folder)
