"""What `orch run` is: one tuple of small steps, each fed with what the last one made.

A step returns the run as it is now, or an exit code, which ends it.
"""

from __future__ import annotations

import hashlib
import importlib
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator import __version__, order
from orchestrator.agent.frames import Data
from orchestrator.agent.journal import now
from orchestrator.agent.plan import Plan
from orchestrator.errors import HostError, InputError, PreflightRefused, Unreachable
from orchestrator.link import courier
from orchestrator.link.push import Order, push
from orchestrator.link.session import LinkLost, Refused, Session
from orchestrator.report.teller import Teller
from orchestrator.source import anchor, repository, snapshot
from orchestrator.source.snapshot import Snapshot
from orchestrator.spec.expand import Prepared, prepare
from orchestrator.spec.hosts import Host, find_host, hosts_files
from orchestrator.spec.quantity import show_duration
from orchestrator.store import rundir, sent
from orchestrator.store.history import of_plan
from orchestrator.store.record import Preflight, RunRecord, Tree
from orchestrator.store.rundir import RunDir

ASK_AGAIN_S = 3.0
ABANDON_DEADLINE_S = 30.0
INTERRUPTED_EXIT_CODE = 130


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    experiment: Path
    host: str | None = None
    preflight: bool = True
    json: bool = False
    patience_s: float = 600.0
    note: str = ""


@dataclass(frozen=True)
class Run:
    """A run on its way; later steps fill in what earlier ones could not know."""

    options: Options
    teller: Teller
    cleanup: ExitStack
    begun: float
    project: Path = Path()
    prepared: Prepared | None = None
    host_name: str = ""
    host: Host | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    connecting: Future[Session] | None = None
    session: Session | None = None
    connected_s: float = 0.0
    preflight: Preflight | None = None
    snapshot: Snapshot | None = None
    folder: RunDir | None = None
    record: RunRecord | None = None
    plan: Plan | None = None

    def since_begin_s(self) -> float:
        return round(time.monotonic() - self.begun, 3)


Step = Callable[[Run], Run | int]


def run(options: Options, teller: Teller) -> int:
    """Run an experiment from its file to its verdict; returns the exit code.

    Raises:
        OrchError: whatever of its tree ended the run before a verdict.
    """
    steps: tuple[Step, ...] = (
        load,
        choose_host,
        begin_to_connect,
        lint,
        take_snapshot,
        finish_connecting,
        seal,
        send,
        see_to_its_end,
    )
    with ExitStack() as cleanup:
        state: Run | int = Run(options, teller, cleanup, time.monotonic())
        for step in steps:
            assert isinstance(state, Run)
            try:
                state = step(state)
            except KeyboardInterrupt:
                if step in (send, see_to_its_end):
                    raise
                return _nothing_started(teller)
            if isinstance(state, int):
                return state
    raise AssertionError("the last step returns an exit code")


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


def begin_to_connect(state: Run) -> Run:
    """Git reads the working copy while the login is under way."""
    host = state.host
    assert host is not None
    pool = ThreadPoolExecutor(1, thread_name_prefix="connect")
    connecting = pool.submit(Session, state.host_name, host, borrow=True)
    state.cleanup.callback(pool.shutdown, wait=False)
    state.cleanup.callback(_close_when_done, connecting)
    return replace(state, connecting=connecting)


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
    prepared = state.prepared
    assert prepared is not None
    experiment = prepared.experiment
    taken = snapshot.take(
        state.project, include=experiment.include, max_new_bytes=experiment.max_upload
    )
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
    # What the end of the run needs is loaded while the network is waited for.
    importlib.import_module("orchestrator.finish")
    importlib.import_module("orchestrator.report.summary")
    session = state.connecting.result()
    assert state.host is not None
    state.cleanup.callback(_keep_open, state)
    state.teller.stage("connect", f"connected to {state.host_name}")
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
    plan_text = plan.to_json()
    rundir.write_atomically(folder.plan, plan_text)
    folder.experiment.write_bytes(prepared.path.read_bytes())
    record = RunRecord(
        run_id=run_id,
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
    anchor.keep(taken.repository, run_id, taken.tree)
    state.teller.stage("seal", f"run {run_id}")
    return replace(state, folder=folder, record=record, plan=plan)


def send(state: Run) -> Run | int:
    """Put the tree on the host and start the run there.

    A refusal leaves no trace here, since nothing ran; neither does an agent that never spoke, or a
    Ctrl-C in mid-upload. When the link breaks, only the host knows whether it has taken over: the
    next step asks it.
    """
    prepared, taken, plan = state.prepared, state.snapshot, state.plan
    assert prepared is not None
    assert taken is not None
    assert plan is not None
    assert state.session is not None
    assert state.folder is not None
    assert state.record is not None
    done = total = 0

    def progress(done_bytes: int, total_bytes: int) -> None:
        nonlocal done, total
        done, total = done_bytes, total_bytes
        state.teller.uploading(done_bytes, total_bytes)

    try:
        order = Order(taken, plan.to_json(), state.secrets, prepared.experiment.max_upload)
        artifacts = state.folder.path.parent
        last_tree = sent.last_tree(artifacts, state.host_name)
        if last_tree is None:
            sent.note(artifacts, state.host_name, sent.UNKNOWN)
        push(state.session, order, progress, last_tree=last_tree)
        sent.note(artifacts, state.host_name, taken.tree)
    except (InputError, Refused):
        _forget(state)
        raise
    except HostError:
        if not state.session.greeted:
            _forget(state)
        raise
    except KeyboardInterrupt:
        return _interrupted(state, state.session, is_cut=done < total)
    except LinkLost as error:
        if done < total:
            state.teller.note(f"the upload was cut ({error}); nothing runs there yet")
        else:
            state.teller.note(
                f"the link broke before {state.host_name} said that the run has begun "
                f"({error}); asking it"
            )
        return replace(state, session=None)
    timings = state.record.timings.model_copy(
        update={
            "connected_s": state.connected_s,
            "started_s": state.since_begin_s(),
            "uploaded_bytes": done,
        }
    )
    record = state.record.model_copy(update={"state": "running", "timings": timings})
    state.folder.write_record(record)
    state.teller.stage("start", f"the run has started on {state.host_name}")
    return replace(state, record=record)


def see_to_its_end(state: Run) -> int:
    """Follow, bring home, verify, reconcile, tell: the same as `orch attach` from here on."""
    from orchestrator.finish import Outcome, finish

    assert state.folder is not None
    assert state.record is not None
    assert state.host is not None
    assert state.plan is not None
    outcome = Outcome(
        folder=state.folder,
        record=state.record,
        host_name=state.host_name,
        host=state.host,
        history=of_plan(state.plan.jobs),
        teller=state.teller,
        begun=state.begun,
        session=state.session,
        patience_s=state.options.patience_s,
        json=state.options.json,
    )
    if state.session is not None:
        return finish(outcome)
    return _finish_if_it_started(state, lambda: finish(outcome))


# ---- parts of the steps


def _finish_if_it_started(state: Run, go_on: Callable[[], int]) -> int:
    """After a link that broke in mid-push: the host may have begun, may be about to, or never will.

    Raises:
        Unreachable: it never did; nothing ran, and nothing of the run is left here.
    """
    for last in (False, False, True):
        try:
            return go_on()
        except Refused as refusal:
            if refusal.code != "no_such_run":
                raise
            if last:
                _forget(state)
                raise Unreachable(
                    f"the link to `{state.host_name}` broke while the tree was sent; nothing ran",
                    fix="run again: what the host has by now is not sent again",
                ) from refusal
            time.sleep(ASK_AGAIN_S)
    raise AssertionError("the last turn returns or raises")


def _forget(state: Run) -> None:
    """Leave no trace of a run that never was."""
    assert state.snapshot is not None
    assert state.folder is not None
    anchor.forget(state.snapshot.repository, state.folder.run_id)
    shutil.rmtree(state.folder.path)


def _interrupted(state: Run, session: Session, *, is_cut: bool) -> int:
    """After a Ctrl-C in mid-push: the host begins with a whole tree, unless it is told not to."""
    if is_cut:
        session.close()
    elif not _is_abandoned(session):
        return _may_have_started(state)
    _forget(state)
    return _nothing_started(state.teller)


def _is_abandoned(session: Session) -> bool:
    """Whether the host says that it has not begun, and will not."""
    end = time.monotonic() + ABANDON_DEADLINE_S
    try:
        session.tell("abandon")
        while time.monotonic() < end:
            frame = session.next(1.0)
            if frame is not None and not isinstance(frame, Data) and frame["type"] == "started":
                return False
    except Refused:
        return True
    except (LinkLost, HostError, KeyboardInterrupt):
        return False
    return False


def _nothing_started(teller: Teller) -> int:
    teller.note("nothing was started; the next run sends what is missing")
    return INTERRUPTED_EXIT_CODE


def _may_have_started(state: Run) -> int:
    assert state.folder is not None
    run_id = state.folder.run_id
    state.teller.note(
        f"{state.host_name} has the whole tree and may have begun\n"
        f"  follow it: orch attach {run_id}\n"
        f"  stop it:   orch cancel {run_id}"
    )
    return INTERRUPTED_EXIT_CODE


def _keep_open(state: Run) -> None:
    assert state.host is not None
    try:
        courier.provide(state.host_name, state.host)
    except OSError as error:
        state.teller.note(f"note: the connection is not kept open: {error}")


def _close_when_done(connecting: Future[Session]) -> None:
    if not connecting.cancel() and connecting.exception(timeout=120) is None:
        connecting.result().close()
