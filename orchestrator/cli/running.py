"""Commands that start a run or take part in one.

Imports stand inside the functions: `orch run` loads what its end needs while the network is slow.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.places import artifacts, host_of_run
from orchestrator.errors import EvidenceError, InputError
from orchestrator.report.teller import choose, closing
from orchestrator.spec.quantity import parse_duration
from orchestrator.store import rundir
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
    from orchestrator import resume
    from orchestrator.finish import finish, reconcile, tell

    folder = _folder(name, host)
    host_name, found = host_of_run(folder.read_record(), host)
    with closing(choose(plain=plain, json=json)) as teller:
        outcome = resume.outcome(
            folder, host_name, found, teller, json=json, patience_s=_patience_s(patience)
        )
        if outcome.record.state == "home":
            return tell(reconcile(outcome))
        return finish(outcome)


def fetch(name: str, host: str | None) -> int:
    from orchestrator.link import visits

    folder = _folder(name, host)
    record = folder.read_record()
    if record.state == "home" and folder.evidence.exists():
        print(f"{record.run_id} is home already: {folder.path}")
        return 0
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
    return attach(str(folder.path), host, True, False, "2m")


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
