"""Short visits to a host: one question, one answer, good-bye."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from orchestrator.agent.frames import Data
from orchestrator.errors import ProtocolError, Unreachable
from orchestrator.link import courier
from orchestrator.link.refusal import Refused
from orchestrator.link.session import LinkLost, Session
from orchestrator.link.welcome import be_welcome
from orchestrator.spec.hosts import Host
from orchestrator.store.record import Bundle

ANSWER_DEADLINE_S = 60.0


def _ask(name: str, host: Host, action: str, answer: str, **facts: Any) -> Mapping[str, Any]:
    with _visit(name, host, borrow=True) as session:
        be_welcome(session, action, ANSWER_DEADLINE_S, **facts)
        return session.expect(answer, ANSWER_DEADLINE_S)


@contextmanager
def _visit(name: str, host: Host, *, borrow: bool) -> Iterator[Session]:
    """A session for one question; a link that breaks meanwhile is an unreachable host."""
    try:
        with Session(name, host, borrow=borrow and courier.lends_freely(host)) as session:
            yield session
    except LinkLost as error:
        raise Unreachable(f"the link to `{name}` broke: {error}", fix="try again") from error


def runs(name: str, host: Host) -> list[Mapping[str, Any]]:
    """The runs that lie on a host, oldest first."""
    return list(_ask(name, host, "list", "runs")["runs"])


def status(name: str, host: Host, run_id: str) -> Mapping[str, Any]:
    """How a run stands on its host. The id may be a beginning that only one run has."""
    return _ask(name, host, "status", "status", run_id=run_id)


def plan(name: str, host: Host, run_id: str) -> str:
    """The plan of a run, as JSON."""
    return str(_ask(name, host, "plan", "plan", run_id=run_id)["plan"])


def tell_home(name: str, host: Host, run_id: str, here: Bundle) -> None:
    """Say that a run is home; to a host that has no such run any more, there is nothing to say.

    Raises:
        HostError, Refused: it cannot be reached, or its bundle is another one than the one here.
    """
    with _visit(name, host, borrow=True) as session:
        places = {"journal_at": 0, "bundle_at": here.size}
        try:
            be_welcome(session, "attach", ANSWER_DEADLINE_S, run_id=run_id, **places)
            session.expect("attached", ANSWER_DEADLINE_S)
        except Refused as refusal:
            if refusal.code == "no_such_run":
                return
            raise
        end = _bundle_end(name, session)
        if (end["size"], end["manifest_sha256"]) != (here.size, here.manifest_sha256):
            raise ProtocolError(f"the bundle on `{name}` is not the one that is here")
        session.tell("home")
        session.expect("bye", ANSWER_DEADLINE_S)


def _bundle_end(name: str, session: Session) -> Mapping[str, Any]:
    """The last word on a bundle of which nothing is asked for; the journal is let pass."""
    end = time.monotonic() + ANSWER_DEADLINE_S
    while time.monotonic() < end:
        frame = session.next(1.0)
        if isinstance(frame, Data):
            if frame.stream == "bundle":
                raise ProtocolError(f"the bundle on `{name}` is longer than the one that is here")
        elif frame is not None and frame["type"] == "bundle_end":
            return frame
    raise Unreachable(f"`{name}` said nothing of its bundle for {ANSWER_DEADLINE_S:.0f} s")


def cancel(name: str, host: Host, run_id: str) -> bool:
    """Stop a run; False when it was not running any more."""
    answer = _ask(name, host, "cancel", "cancelled", run_id=run_id, who="orch cancel")
    return bool(answer["was_running"])


def sweep(
    name: str,
    host: Host,
    *,
    older_than_s: float,
    keep_bytes: int,
    dry_run: bool,
    unfetched: bool = False,
) -> Mapping[str, Any]:
    """Remove old runs and unused file contents on a host; `unfetched` takes the only copies too."""
    return _ask(
        name,
        host,
        "sweep",
        "swept",
        older_than_s=older_than_s,
        keep_bytes=keep_bytes,
        dry_run=dry_run,
        unfetched=unfetched,
    )


@dataclass(frozen=True)
class Checkup:
    """What `orch doctor` learns of a host and of the way to it."""

    welcome: Mapping[str, Any]
    findings: list[Mapping[str, str]]
    noise: bytes
    greeted_s: float
    host_at: str


def checkup(name: str, host: Host) -> Checkup:
    """Reach a host as its first run would, over a new connection, and let the agent look around."""
    begun = time.monotonic()
    with _visit(name, host, borrow=False) as session:
        session.open("checkup", env=host.env)
        welcome = session.expect("welcome", ANSWER_DEADLINE_S)
        greeted_s = time.monotonic() - begun
        answer = session.expect("checkup", ANSWER_DEADLINE_S)
        return Checkup(
            welcome, list(answer["findings"]), session.noise, greeted_s, str(answer["at"])
        )


def log(name: str, host: Host, run_id: str, job: str | None, *, follow: bool) -> Iterator[bytes]:
    """A job's log, piece by piece; the first piece may be a long time coming with `follow`."""
    # Whoever follows may do so for hours, in which the next run would have to log in.
    with _visit(name, host, borrow=not follow) as session:
        be_welcome(session, "logs", ANSWER_DEADLINE_S, run_id=run_id, job=job, follow=follow)
        session.expect("log_of", ANSWER_DEADLINE_S)
        while True:
            frame = session.next(ANSWER_DEADLINE_S)
            if isinstance(frame, Data):
                yield bytes(frame.body)
            elif frame is not None and frame["type"] == "bye":
                return
            elif frame is None:
                raise ProtocolError(f"`{name}` went silent in the middle of a log")
