"""The first half of `orch run`: everything that is needed before anything is sent."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from orchestrator import __version__
from orchestrator.agent.journal import now
from orchestrator.agent.plan import Plan
from orchestrator.errors import InputError, PreflightRefused
from orchestrator.link import carriers, courier
from orchestrator.link.session import Session
from orchestrator.run import order
from orchestrator.run.state import Run
from orchestrator.source import anchor, git, repository, snapshot
from orchestrator.source.snapshot import Snapshot
from orchestrator.spec.expand import prepare
from orchestrator.spec.hosts import find_host, hosts_files
from orchestrator.spec.quantity import show_duration
from orchestrator.store import hold, rundir
from orchestrator.store.record import Preflight, RunRecord, Tree
from orchestrator.store.rundir import RunDir

T = TypeVar("T")

_TURN_S = 0.5
_LAST_WAIT_S = 10.0
_STOP_AGAIN_S = 0.1


def load(state: Run) -> Run:
    """Read the experiment and its ledger, with every mistake in them."""
    prepared = prepare(state.options.experiment)
    project = repository.find(prepared.path.resolve().parent).top
    secrets = order.secrets_of(prepared.experiment.secrets)
    count = len(prepared.jobs)
    state.teller.stage(
        "plan",
        f"{prepared.experiment.experiment}: {count} {'job' if count == 1 else 'jobs'}, "
        f"at most {show_duration(prepared.worst_case_s)}",
    )
    return replace(state, prepared=prepared, project=project, secrets=secrets)


def choose_host(state: Run) -> Run:
    """The host of the command line, or the experiment's."""
    prepared = state.prepared
    assert prepared is not None
    name = state.options.host or prepared.experiment.host
    asked_at = None
    if not state.options.host and ("host",) in prepared.document.values:
        asked_at = prepared.document.problem(("host",), "")
    host = find_host(name, hosts_files(state.project), asked_at=asked_at)
    return replace(state, host_name=name, host=host)


def set_out(state: Run) -> Run:
    """Begin the two things that mostly wait: the login, and git over the working copy."""
    prepared, host = state.prepared, state.host
    assert prepared is not None
    assert host is not None
    experiment = prepared.experiment
    snapshotting = _beside(
        "snapshot",
        lambda: snapshot.take(
            state.project, include=experiment.include, max_new_bytes=experiment.max_upload
        ),
    )
    if not courier.is_there(state.host_name, host):
        # Here, since the linter would slow it down, and the network waits for it.
        carriers.load(host)
    connecting = _beside("login", lambda: Session(state.host_name, host, borrow=True))
    state.cleanup.callback(_close_when_done, connecting)
    state.cleanup.callback(_let_end, snapshotting)
    return replace(state, connecting=connecting, snapshotting=snapshotting)


def lint(state: Run) -> Run:
    """Check what can be checked here: the experiment and the code that its steps run.

    Raises:
        PreflightRefused: there are errors, which would waste the round trip.
    """
    if not state.options.preflight:
        return replace(state, preflight=Preflight(ran=False))
    from preflight import gate
    from preflight.config import ConfigError

    prepared = state.prepared
    assert prepared is not None
    try:
        found = gate.check_experiment(prepared.path.resolve())
    except ConfigError as error:
        raise InputError(str(error)) from error
    if found.errors:
        count = f"{found.errors} error{'s' if found.errors > 1 else ''}"
        raise PreflightRefused(
            f"preflight found {count} in what this experiment runs",
            fix="mend them; `--no-preflight` runs all the same, and the record says so",
            detail=found.text,
        )
    if found.warnings:
        count = f"{found.warnings} warning{'s' if found.warnings > 1 else ''}"
        state.teller.note(f"preflight: {count}; `orch preflight {prepared.path}` shows them")
    counts = Preflight(ran=True, errors=0, warnings=found.warnings, suppressed=found.suppressed)
    return replace(state, preflight=counts)


def take_snapshot(state: Run) -> Run:
    """The working copy as one tree."""
    assert state.snapshotting is not None
    taken = _result(state.snapshotting)
    code = taken.code
    changes = f", {code.changed} changed and {code.untracked} new files" if code.dirty else ""
    state.teller.stage("snapshot", f"tree {taken.tree[:12]} ({code.branch or 'detached'}{changes})")
    for note in taken.notes:
        state.teller.note(f"note: {note}")
    if code.in_progress:
        state.teller.note(f"note: a {code.in_progress} is in progress; the files go as they are")
    return replace(state, snapshot=taken)


def finish_connecting(state: Run) -> Run:
    """From here on the host is known to be there; nothing was written for one that is not."""
    assert state.connecting is not None
    session = _result(state.connecting)
    assert state.host is not None
    state.cleanup.callback(_keep_open, state)
    if session.is_lent or state.host.carrier in ("local", "ssh"):
        state.teller.stage("connect", f"connected to {state.host_name}")
    else:
        # Their program was started; whether it gets there shows with the first byte.
        state.teller.stage("reach", f"reaching {state.host_name}")
    return replace(state, session=session, connected_s=state.since_begin_s())


def seal(state: Run) -> Run:
    """Make the run's directory, with the predictions as they are before the first step."""
    prepared, host, taken = state.prepared, state.host, state.snapshot
    assert prepared is not None
    assert host is not None
    assert taken is not None
    run_id = order.new_run_id(prepared.experiment.experiment)
    plan = order.make_plan(run_id, prepared, host, taken)
    folder = rundir.create(rundir.artifacts_dir(state.project), run_id)
    holding = state.cleanup.enter_context(ExitStack())
    try:
        holding.enter_context(hold.held(folder))
        record = _write_down(state, plan, folder)
        anchor.keep(taken.repository, run_id, taken.tree)
    except BaseException:
        # Half a run is none.
        holding.close()
        shutil.rmtree(folder.path)
        raise
    state.teller.stage("seal", f"run {run_id}")
    return replace(state, folder=folder, hold=holding, record=record, plan=plan)


def _write_down(state: Run, plan: Plan, folder: RunDir) -> RunRecord:
    prepared, host, taken = state.prepared, state.host, state.snapshot
    assert prepared is not None
    assert host is not None
    assert taken is not None
    plan_text = plan.to_json()
    rundir.write_atomically(folder.plan, plan_text)
    folder.experiment.write_bytes(prepared.path.read_bytes())
    record = RunRecord(
        run_id=plan.run_id,
        experiment=prepared.experiment.experiment,
        experiment_file=order.relative(prepared.path, state.project),
        host=state.host_name,
        carrier=host.carrier,
        created_at=now(),
        orch_version=__version__,
        tree=Tree(local=taken.tree, object_format=taken.repository.object_format),
        note=state.options.note,
        code=taken.code.as_json(),
        caches=prepared.experiment.caches,
        preflight=state.preflight,
        ledger=order.seal_ledger(prepared, folder, state.project, taken),
        plan_sha256=hashlib.sha256(plan_text.encode("utf-8")).hexdigest(),
    )
    folder.write_record(record)
    return record


def _keep_open(state: Run) -> None:
    assert state.host is not None
    try:
        courier.provide(state.host_name, state.host)
    except OSError as error:
        state.teller.note(f"note: the connection is not kept open: {error}")


def _beside(name: str, work: Callable[[], T]) -> Future[T]:
    """Do something in a thread that the end of the command does not wait for."""
    future: Future[T] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by `future.result`
            future.set_exception(error)

    threading.Thread(target=do, name=name, daemon=True).start()
    return future


def _result(future: Future[T]) -> T:
    """Wait in short turns: Ctrl-C on Windows does not break a long one."""
    while not future.done():
        wait([future], timeout=_TURN_S)
    return future.result()


def _let_end(snapshotting: Future[Snapshot]) -> None:
    """Git may still be reading when the run has ended elsewhere: it is stopped, and leaves nothing.

    What it would have said is said the next time.
    """
    end = time.monotonic() + _LAST_WAIT_S
    while not snapshotting.done() and time.monotonic() < end:
        git.stop()
        wait([snapshotting], timeout=_STOP_AGAIN_S)


def _close_when_done(connecting: Future[Session]) -> None:
    """A login that is still under way is not waited for: nothing has been said over it."""

    def close(done: Future[Session]) -> None:
        if done.exception() is None:
            done.result().close()

    connecting.add_done_callback(close)
