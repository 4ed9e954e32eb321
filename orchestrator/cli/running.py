"""Commands that start a run or take part in one.

Imports stand inside the functions: `orch run` loads what its end needs while the network is slow.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.places import artifacts, host_of_run
from orchestrator.errors import EvidenceError, HostError, InputError
from orchestrator.report.teller import choose, closing
from orchestrator.spec.hosts import Host
from orchestrator.spec.quantity import parse_duration
from orchestrator.store import arrival, hold, rundir
from orchestrator.store.record import RunRecord
from orchestrator.store.rundir import RunDir


def run(
    experiment: Path,
    host: str | None,
    plain: bool,
    json: bool,
    preflight: bool,
    patience: str,
    note: str,
) -> int:
    from orchestrator.run import Options
    from orchestrator.run import run as run_experiment

    options = Options(experiment, host, preflight, json, _patience_s(patience), note)
    with closing(choose(plain=plain, json=json)) as teller:
        return run_experiment(options, teller)


def attach(name: str, host: str | None, plain: bool, json: bool, patience: str) -> int:
    folder = _folder(name, host)
    with hold.held(folder):
        return _attach(folder, host, plain, json, patience)


def _attach(folder: RunDir, host: str | None, plain: bool, json: bool, patience: str) -> int:
    from orchestrator import resume
    from orchestrator.finish import finish

    record = folder.read_record()
    host_name, found = _host_if_needed(folder, record, host)
    with closing(choose(plain=plain, json=json)) as teller:
        outcome = resume.outcome(
            folder, host_name, found, teller, json=json, patience_s=_patience_s(patience)
        )
        return finish(outcome)


def _host_if_needed(folder: RunDir, record: RunRecord, host: str | None) -> tuple[str, Host | None]:
    """The run's host; None where it is not known, and nothing is wanted of it."""
    try:
        return host_of_run(record, host)
    except InputError:
        if record.state != "home" and not arrival.has_all(folder, record.bundle):
            raise
        return record.host, None


def fetch(name: str, host: str | None) -> int:
    folder = _folder(name, host)
    with hold.held(folder):
        return _fetch(folder, host)


def _fetch(folder: RunDir, host: str | None) -> int:
    from orchestrator.link import visits

    record = folder.read_record()
    if _is_all_here(folder, record):
        return _home_already(folder, record, host)
    if record.state != "home" and arrival.has_all(folder, record.bundle):
        return _attach(folder, host, True, False, "2m")
    host_name, found = host_of_run(record, host)
    state = visits.status(host_name, found, record.run_id)
    if state["alive"] and not state["ended"]:
        raise EvidenceError(
            f"{record.run_id} is still running on {host_name}: {state['ended_jobs']} of "
            f"{state['jobs']} jobs have ended",
            fix=f"orch attach {record.run_id}",
        )
    if record.state == "home":
        # Its evidence was removed here since; the host has it still.
        folder.write_record(record.model_copy(update={"state": "running"}))
    return _attach(folder, host, True, False, "2m")


def _is_all_here(folder: RunDir, record: RunRecord) -> bool:
    """Whether a run is home, with all that its verdict is made of.

    Raises:
        EvidenceError: it is damaged, and the bundle here mends that.
    """
    from orchestrator.store import check

    if record.state != "home":
        return False
    try:
        check.what_is_read(folder, record)
    except EvidenceError as error:
        if folder.bundle.exists():
            error.fix = error.fix or f"remove {folder.bundle}, then orch fetch {folder.run_id}"
            raise
        return False
    return True


def _home_already(folder: RunDir, record: RunRecord, host: str | None) -> int:
    """Say so, with what an earlier visit had no time or room for; returns the run's exit code."""
    from orchestrator import resume
    from orchestrator.link.refusal import Refused

    print(f"{record.run_id} is home already: {folder.path}")
    if record.bundle is not None and not record.bundle.confirmed:
        try:
            resume.confirm(folder, *host_of_run(record, host))
        except (HostError, InputError, Refused) as error:
            print(f"note: {record.host} cannot be told so, and keeps its copy: {error}")
    if record.exit_code is None or not folder.verdict.exists():
        return _attach(folder, host, True, False, "2m")
    return record.exit_code


def cancel(name: str, host: str | None) -> None:
    from orchestrator.link import visits

    record = _folder(name, host).read_record()
    host_name, found = host_of_run(record, host)
    if visits.cancel(host_name, found, record.run_id):
        print(f"cancelled; what it produced comes home with: orch attach {record.run_id}")
    else:
        print(f"{record.run_id} is not running any more; fetch it: orch fetch {record.run_id}")


def _folder(name: str, host: str | None) -> RunDir:
    """The run's directory; made anew when the run is known to a host only.

    Raises:
        InputError: no run of that name is here, and no host was named to look at.
    """
    from orchestrator import resume

    try:
        return rundir.find(artifacts(), name)
    except InputError:
        if host is None:
            raise
    host_name, found = host_of_run(None, host)
    return resume.adopt(artifacts(), name, host_name, found)


def _patience_s(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"--patience {text}: {error}") from error
