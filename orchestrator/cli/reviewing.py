"""Commands of a review."""

from __future__ import annotations

import subprocess
from functools import partial

from orchestrator import reading
from orchestrator.cli.places import artifacts, project_dir
from orchestrator.diff.comparison import Comparison, between_runs
from orchestrator.errors import EvidenceError, InputError
from orchestrator.report.view import RunView
from orchestrator.report.words import harmless
from orchestrator.review.decision import place_of
from orchestrator.review.desk import Desk, Finished
from orchestrator.store import rundir
from orchestrator.store.rundir import RunDir

LEDGER = "ledger"


def review(name: str, against: str, port: int, tty: bool, open_browser: bool) -> int:
    """0 when everything was accepted, 1 when something was rejected, 3 while something is open."""
    folder = _home(name)
    beside = None if against == LEDGER else _home(against)
    if beside is not None and beside.run_id == folder.run_id:
        raise InputError(
            f"`{against}` is {folder.run_id} itself: nothing can differ",
            expected="--against ledger, or another run",
        )
    if tty:
        desk = _desk(folder, beside)
        done = _in_terminal(desk)
    else:
        desk, done = _in_browser(folder, beside, port, open_browser)
    if done is None:
        place = place_of(folder)
        kept = f"decisions so far: {place}" if place.exists() else "nothing was decided"
        print(f"left with {len(desk.open)} open; {kept}")
        return 3
    _tell(done)
    for problem in desk.view.problems:
        print(f"unreadable result: {harmless(problem)}")
    if done.open or desk.view.problems:
        return 3
    return 1 if done.rejected else 0


def _home(name: str) -> RunDir:
    """The run of that name.

    Raises:
        EvidenceError: it came home, and its evidence is gone since.
    """
    folder = rundir.find(artifacts(), name)
    if folder.read_record().state == "home" and not folder.evidence.is_dir():
        raise EvidenceError(
            f"the evidence of {folder.run_id} is gone from {folder.path}",
            fix=f"orch fetch {folder.run_id}",
        )
    return folder


def _desk(folder: RunDir, beside: RunDir | None) -> Desk:
    view = reading.view(folder)
    other = None if beside is None else reading.view(beside)
    found = _comparison(other, view)
    differences = [r for r in found.artifacts if r.status != "equal"] if found else []
    return Desk(view, other, differences, by=_reviewer(), comparison=found)


def _in_browser(
    folder: RunDir, beside: RunDir | None, port: int, open_browser: bool
) -> tuple[Desk, Finished | None]:
    try:
        from orchestrator.review.serve import listen, serve
    except ModuleNotFoundError as error:
        raise InputError(
            f"the review page needs the package `{error.name}`",
            fix="pip install 'gpu-orch[review]', or use --tty",
        ) from error
    # Before the comparison, which may take minutes: a port that is taken is told at once.
    with listen(port) as listener:
        desk = _desk(folder, beside)
        say = partial(print, flush=True)
        return desk, serve(desk, listener, open_browser=open_browser, say=say)


def _in_terminal(desk: Desk) -> Finished | None:
    from rich.console import Console

    from orchestrator.review import tty

    return tty.review(desk, Console(), input)


def _tell(done: Finished) -> None:
    print(f"{done.words}\n  kept: {done.review}")
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
