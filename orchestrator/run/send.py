"""The second half of `orch run`: the tree goes to the host, and the run is followed to its end."""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Callable
from dataclasses import replace

from orchestrator.agent.frames import Data
from orchestrator.errors import HostError, InputError, Unreachable
from orchestrator.link import agentzip
from orchestrator.link.push import Order, push
from orchestrator.link.refusal import Refused
from orchestrator.link.session import LinkLost, Session
from orchestrator.report.teller import Teller
from orchestrator.run.state import INTERRUPTED_EXIT_CODE, Run
from orchestrator.source import anchor
from orchestrator.store import sent
from orchestrator.store.history import of_plan
from orchestrator.store.sent import Sent

ASK_AGAIN_S = 3.0
ABANDON_DEADLINE_S = 30.0


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
    assert state.host is not None
    assert state.session is not None
    assert state.folder is not None
    assert state.record is not None
    done = 0
    is_whole = False

    def progress(done_bytes: int, total_bytes: int) -> None:
        nonlocal done
        done = done_bytes
        state.teller.uploading(done_bytes, total_bytes)

    def whole(now: bool) -> None:
        nonlocal is_whole
        is_whole = now

    try:
        order = Order(taken, plan.to_json(), state.secrets, prepared.experiment.max_upload)
        last = sent.last(state.folder.path.parent, state.host.place)
        if last is None:
            _remember(state, Sent())
        push(state.session, order, progress, last=last, meanwhile=_load_the_end, whole=whole)
    except (InputError, Refused):
        _forget(state)
        raise
    except HostError:
        if not state.session.greeted:
            _forget(state)
        raise
    except KeyboardInterrupt:
        return _interrupted(state, state.session, is_cut=not is_whole)
    except LinkLost as error:
        if not is_whole:
            state.teller.note(f"the upload was cut ({error}); nothing runs there yet")
        else:
            state.teller.note(
                f"the link broke before {state.host_name} said that the run has begun "
                f"({error}); asking it"
            )
        return replace(state, session=None)
    _remember(state, Sent(taken.tree, agentzip.name()))
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


def _remember(state: Run, what: Sent) -> None:
    """What this host has now; without it the next run asks for more than it would have to."""
    assert state.folder is not None
    assert state.host is not None
    try:
        sent.note(state.folder.path.parent, state.host.place, what)
    except OSError as error:
        why = error.strerror or str(error)
        state.teller.note(f"note: what {state.host_name} was sent cannot be noted: {why}")


def _load_the_end() -> None:
    for module in ("orchestrator.finish", "orchestrator.report.summary"):
        importlib.import_module(module)


def see_to_its_end(state: Run) -> int:
    """Follow, bring home, verify, reconcile, tell: the same as `orch attach` from here on."""
    from orchestrator.finish import finish
    from orchestrator.outcome import Outcome

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
    state.hold.close()
    shutil.rmtree(state.folder.path)


def _interrupted(state: Run, session: Session, *, is_cut: bool) -> int:
    """After a Ctrl-C in mid-push: the host begins with a whole tree, unless it is told not to."""
    if not is_cut and not _is_abandoned(session):
        return _may_have_started(state)
    _forget(state)
    return nothing_started(state.teller)


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
    except HostError:
        # An agent greets before it hears anything: one that never did was told nothing.
        return not session.greeted
    except (LinkLost, KeyboardInterrupt):
        return False
    return False


def nothing_started(teller: Teller) -> int:
    teller.note("nothing was started; the next run sends what is missing")
    return INTERRUPTED_EXIT_CODE


def _may_have_started(state: Run) -> int:
    assert state.folder is not None
    run_id = state.folder.run_id
    state.teller.note(
        f"{state.host_name} was sent the whole tree and may have begun\n"
        f"  follow it: orch attach {run_id}\n"
        f"  stop it:   orch cancel {run_id}"
    )
    return INTERRUPTED_EXIT_CODE
