"""Commands that look at runs."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Iterator
from pathlib import Path

from orchestrator import reading, resume
from orchestrator.cli.places import artifacts, host_of_run
from orchestrator.errors import EvidenceError, InputError
from orchestrator.finish import judged, tell
from orchestrator.link import visits
from orchestrator.report.plain import PlainTeller
from orchestrator.report.words import harmless, state_words
from orchestrator.spec.hosts import Host
from orchestrator.spec.quantity import show_size
from orchestrator.store import check, rundir
from orchestrator.store.history import JobView
from orchestrator.store.record import RunRecord
from orchestrator.store.rundir import RunDir

_PIECE_BYTES = 1 << 20


def ls(json: bool, host: str | None) -> None:
    if host is not None:
        _list_on_host(host, json)
        return
    for folder in rundir.run_dirs(artifacts()):
        try:
            record = folder.read_record()
        except EvidenceError as error:
            # One damaged record must not hide the others.
            print(f"{folder.run_id}  damaged: {error}", file=sys.stderr)
            continue
        print(record.model_dump_json(by_alias=True) if json else _line(record))


def show(name: str, json: bool) -> int:
    folder = rundir.find(artifacts(), name)
    record = folder.read_record()
    if record.state != "home":
        _show_unfinished(folder, record)
        return 3
    check.what_is_read(folder, record)
    local = Host(local=True)
    return tell(judged(resume.outcome(folder, record.host, local, PlainTeller(), json=json)))


def logs(name: str, job: str | None, follow: bool) -> None:
    folder = rundir.find(artifacts(), name)
    record = folder.read_record()
    if record.state == "home":
        check.present(folder)
        pieces = _pieces_here(folder, job)
    else:
        host_name, host = host_of_run(record, None)
        pieces = visits.log(host_name, host, record.run_id, job, follow=follow)
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


def verify(target: str) -> None:
    path = Path(target)
    if path.is_file():
        found = check.bundle(path)
        print(f"{path}: {found.files} files of {found.run_id}, every hash is right")
        return
    folder = rundir.find(artifacts(), target)
    for line in check.run(folder):
        print(line)
    print(f"{folder.run_id}: verified")


def _line(record: RunRecord) -> str:
    counts = ", ".join(f"{n} {state_words(s)}" for s, n in sorted(record.counts.items()))
    verdict = "no verdict" if record.state == "home" else ""
    if record.exit_code is not None:
        verdict = f"exit {record.exit_code}"
    words = f"{record.run_id}  {record.host}  {record.state}  {verdict}  {counts}"
    return " ".join(words.split(" ")).rstrip()


def _list_on_host(name: str, json: bool) -> None:
    host_name, host = host_of_run(None, name)
    for state in visits.runs(host_name, host):
        if json:
            print(json_text.dumps(state))
            continue
        word = "running" if state["alive"] else "ended" if state["ended"] else "lost"
        jobs = f"{state['ended_jobs']}/{state['jobs']} jobs"
        damage = f"  damaged: {harmless(state['damage'])}" if state.get("damage") else ""
        print(f"{state['run_id']}  {word}  {jobs}  {show_size(state['size'])}{damage}")


def _show_unfinished(folder: RunDir, record: RunRecord) -> None:
    history = reading.seen_history(folder)
    counts = ", ".join(f"{n} {state_words(s)}" for s, n in sorted(history.counts.items()))
    print(f"{record.run_id} on {record.host} is not home: {counts}")
    print(f"  follow it: orch attach {record.run_id}")


def _pieces_here(folder: RunDir, wanted: str | None) -> Iterator[bytes]:
    jobs = reading.known_history(folder).jobs
    job = jobs.get(wanted) if wanted else _most_telling(folder, list(jobs.values()))
    if job is None:
        raise InputError(f"the run has no job `{wanted or ''}`", expected=", ".join(jobs))
    path = _log_of(folder, job)
    if not path.exists():
        raise InputError(f"`{job.id}` {state_words(job.state)} and has no log")
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _most_telling(folder: RunDir, jobs: list[JobView]) -> JobView | None:
    """The last job that did not pass, or simply the last one."""
    begun = [job for job in jobs if _log_of(folder, job).exists()]
    bad = [job for job in begun if job.state != "passed"]
    return next(iter([*bad[-1:], *begun[-1:]]), None)


def _log_of(folder: RunDir, job: JobView) -> Path:
    return folder.evidence / "steps" / job.folder / "log"
