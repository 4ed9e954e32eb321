"""Following a run until its bundle is home, over as many connections as that takes.

What came so far is kept in two files, so a broken link costs the bytes that were under way and no
more: the next connection goes on at their ends.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from orchestrator.agent.frames import Data
from orchestrator.agent.journal import LineReader
from orchestrator.errors import OrchError, ProtocolError, Unreachable
from orchestrator.link import courier
from orchestrator.link.refusal import Refused
from orchestrator.link.session import LinkLost, Session
from orchestrator.link.welcome import be_welcome
from orchestrator.spec.hosts import Host

ATTACH_DEADLINE_S = 60.0
_TICK_S = 0.1
_SILENCE_S = 25.0
# A link over which words came for so long, or that brought something, is a good one that broke.
_HOLDS_S = 10.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True)
class Event:
    """A line of the journal."""

    facts: dict[str, Any]


@dataclass(frozen=True)
class Tail:
    """The last line of the running job's log."""

    job: str
    line: str


@dataclass(frozen=True)
class Receiving:
    """So many bytes of the bundle are here."""

    done_bytes: int


@dataclass(frozen=True)
class Lost:
    """The link broke; another attempt follows after a pause."""

    reason: str
    pause_s: float


@dataclass(frozen=True)
class Back:
    """The link holds again."""


@dataclass(frozen=True)
class Tick:
    """Nothing happened; a chance to redraw, or to leave."""


@dataclass(frozen=True)
class Arrived:
    """The bundle is here: its size, and the sha256 of its manifest, by the host's word."""

    size: int
    manifest_sha256: str


Update = Event | Tail | Receiving | Lost | Back | Tick | Arrived


class Following:
    """One run being followed. Iterate over it; `cancel` and `leave` may be called meanwhile.

    After `Arrived` the host waits to hear whether it may forget the run: `confirm`, or `leave`.
    """

    def __init__(
        self,
        name: str,
        host: Host,
        run_id: str,
        *,
        journal: Path,
        bundle: Path,
        session: Session | None = None,
        patience_s: float = 600.0,
    ) -> None:
        """Follow a run.

        Args:
            journal: file that receives the journal; what it holds already is not asked for again.
            bundle: file that receives the zip, likewise.
            session: an open conversation that has just started or attached to the run.
            patience_s: how long a lost link is tried again before `Unreachable` is raised.
        """
        self._name = name
        self._host = host
        self._run_id = run_id
        self._journal = journal
        self._bundle = bundle
        self._session = session
        self._patience_s = patience_s
        self._reader = LineReader(lenient=True)
        self._leaving = False
        self._attached_at = self._heard_at = 0.0
        self._brought_something = False

    def __iter__(self) -> Iterator[Update]:
        """Updates until the bundle has arrived.

        Raises:
            Unreachable: the link did not come back in time; the run on the host goes on.
            Refused: the host knows no such run.
        """
        yield from self._known_events()
        lost_at = 0.0
        pause_s = _FIRST_PAUSE_S
        while not self._leaving:
            try:
                if self._session is None:
                    self._session = self._attach(borrow=not lost_at)
                self._attached_at = self._heard_at = time.monotonic()
                self._brought_something = False
                if lost_at:
                    yield Back()
                for update in self._converse(self._session):
                    yield update
                    if isinstance(update, Arrived):
                        return
            except (LinkLost, Unreachable) as error:
                if self._session is not None and self._was_good():
                    lost_at, pause_s = 0.0, _FIRST_PAUSE_S
                lost_at = lost_at or time.monotonic()
                self._drop()
                if time.monotonic() - lost_at > self._patience_s:
                    raise Unreachable(
                        f"the link to `{self._name}` was lost and did not come back within "
                        f"{self._patience_s:.0f} s: {error}",
                        fix=f"the run goes on there; later: `orch attach {self._run_id}`",
                    ) from error
                yield Lost(str(error), pause_s)
                yield from self._pause(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _was_good(self) -> bool:
        """Whether a link that broke had carried anything worth a new patience."""
        return self._brought_something or self._heard_at - self._attached_at >= _HOLDS_S

    def cancel(self) -> None:
        """Tell the host to stop the run; what it produced still comes home."""
        if self._session is not None:
            self._session.tell("cancel", who="the controller")

    def confirm(self) -> bool:
        """Say that what arrived was found whole: from here on the host may remove its copy.

        Returns:
            Whether the link took the word; without it the copy stays.
        """
        if self._session is None:
            return False
        try:
            self._session.tell("home")
        except (LinkLost, OrchError):
            return False
        finally:
            self._session.leave()
            self._session = None
        return True

    def leave(self) -> None:
        """Stop following; the run goes on, and what arrived is not taken for whole."""
        self._leaving = True
        self._drop()

    # -- one connection

    def _attach(self, *, borrow: bool) -> Session:
        self._forget_half_line()
        try:
            return self._attached(borrow=borrow)
        except Refused as refusal:
            if refusal.code != "other_journal":
                raise
        # The host's word counts: what is known of another journal is forgotten.
        self._forget_journal()
        return self._attached(borrow=borrow)

    def _attached(self, *, borrow: bool) -> Session:
        borrow = borrow and courier.lends_freely(self._host)
        session = Session(self._name, self._host, borrow=borrow)
        try:
            be_welcome(
                session,
                "attach",
                ATTACH_DEADLINE_S,
                run_id=self._run_id,
                journal_at=_size(self._journal),
                bundle_at=_size(self._bundle),
            )
            session.expect("attached", ATTACH_DEADLINE_S)
        except BaseException:
            session.close()
            raise
        return session

    def _converse(self, session: Session) -> Iterator[Update]:
        with self._journal.open("ab") as journal, self._bundle.open("ab") as bundle:
            while not self._leaving:
                frame = session.next(_TICK_S)
                if frame is None:
                    last = max(self._heard_at, session.heard_at)
                    if time.monotonic() - last > _SILENCE_S:
                        raise LinkLost(f"no word for {_SILENCE_S:.0f} s")
                    yield Tick()
                    continue
                self._heard_at = time.monotonic()
                if isinstance(frame, Data):
                    yield from self._take(frame, journal, bundle)
                elif frame["type"] == "tail":
                    yield Tail(frame["id"], frame["line"])
                elif frame["type"] == "bundle_anew":
                    bundle.seek(0)
                    bundle.truncate()
                elif frame["type"] == "bundle_end":
                    bundle.flush()
                    yield Arrived(int(frame["size"]), str(frame["manifest_sha256"]))

    def _take(self, data: Data, journal: IO[bytes], bundle: IO[bytes]) -> Iterator[Update]:
        target = {"journal": journal, "bundle": bundle}.get(data.stream)
        if target is None or target.tell() != data.offset:
            raise ProtocolError(f"bytes of `{data.stream}` at {data.offset} fit nowhere")
        target.write(data.body)
        self._brought_something = True
        if data.stream == "bundle":
            yield Receiving(target.tell())
            return
        journal.flush()
        for facts in self._reader.feed(bytes(data.body)):
            yield Event(facts)

    def _known_events(self) -> Iterator[Update]:
        """What an earlier visit brought home, so that the picture is whole."""
        if not self._journal.exists():
            return
        try:
            known = list(LineReader().feed(self._journal.read_bytes()))
        except ValueError:
            # Damaged here; the host has it whole.
            self._forget_journal()
            return
        for facts in known:
            yield Event(facts)

    def _forget_journal(self) -> None:
        self._journal.unlink()
        self._reader = LineReader(lenient=True)

    def _pause(self, pause_s: float) -> Iterator[Update]:
        # Jitter, so that a host that comes back is not met by everybody at once.
        end = time.monotonic() + pause_s * random.uniform(0.7, 1.3)  # noqa: S311
        while time.monotonic() < end and not self._leaving:
            time.sleep(min(_TICK_S, max(end - time.monotonic(), 0)))
            yield Tick()

    def _forget_half_line(self) -> None:
        """A host that ends a dead supervisor's run cuts the half line at the journal's end."""
        if self._journal.exists():
            content = self._journal.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                self._journal.write_bytes(content[:whole])
            self._reader = LineReader(lenient=True)

    def _drop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
