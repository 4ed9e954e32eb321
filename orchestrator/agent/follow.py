"""Telling a controller what a run does, from the byte it knows already, until the bundle is home.

The supervisor does not know that anybody listens; a follower reads the same files as everybody.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import IO, Any

from orchestrator.agent import journal
from orchestrator.agent.conversation import Conversation
from orchestrator.agent.frames import PIECE_BYTES, Data
from orchestrator.agent.launch import Refusal
from orchestrator.agent.layout import RunFolder
from orchestrator.agent.logfile import last_lines
from orchestrator.agent.plan import Plan
from orchestrator.agent.rescue import order_cancel, rescue
from orchestrator.agent.runlock import is_supervised
from orchestrator.agent.wholeness import is_sound, is_whole

_LOOK_S = 0.02
_BEAT_S = 5.0
_TAIL_S = 0.25
_SILENCE_S = 90.0
_TAIL_BYTES = 4096
# The controller unpacks a large bundle before it says so, and closes the link where it is damaged.
_CONFIRM_S = 600.0
# A bundle that is gone is made anew; one that is gone again each time is given up.
_RESCUES = 3
# Large pieces: each one costs a turn of the interpreter on both sides.
_BUNDLE_PIECE_BYTES = 1 << 20


class Follower:
    """One controller following one run."""

    def __init__(self, link: Conversation, run: RunFolder, *, journal_at: int, bundle_at: int):
        self._link = link
        self._run = run
        self._journal_at = journal_at
        self._bundle_at = bundle_at
        self._reader = journal.LineReader(lenient=True)
        self._current: dict[str, Any] | None = None
        self._ended = False
        self._told_tail = ""
        self._beat_at = 0.0
        self._tail_at = 0.0

    def follow(self) -> None:
        """Until the run ended and its bundle was sent, or the controller left.

        Raises:
            Refusal: there is no bundle, and none can be made.
            OSError: as `rescue`.
        """
        self._catch_up()
        self._mend_bundle()
        while not self._ended and not os.path.exists(f"{self._run.bundle}.part"):
            if self._left():
                return
            if not self._tell_journal() and not is_supervised(self._run):
                # It may have written its last line between the two looks.
                if not self._tell_journal() and not self._ended:
                    self._link.tell("host_lost", text="the supervisor on the host is gone")
                    if rescue(self._run):
                        break
                continue
            self._tell_tail()
            self._beat()
        self._send_bundle()
        self._note_that_it_is_home()
        self._link.tell("bye")

    # -- the journal

    def _catch_up(self) -> None:
        """Read what the controller knows already; only what follows is sent."""
        with open(self._run.journal, "rb") as file:
            for event in self._reader.feed(file.read(self._journal_at)):
                self._note(event)

    def _tell_journal(self) -> bool:
        """Send the whole lines that are new: half a line may be cut away by a rescue."""
        piece = self._new_lines()
        for start in range(0, len(piece), PIECE_BYTES):
            part = piece[start : start + PIECE_BYTES]
            self._link.send("journal", self._journal_at, part)
            self._journal_at += len(part)
        for event in self._reader.feed(piece):
            self._note(event)
        return bool(piece)

    def _new_lines(self) -> bytes:
        with open(self._run.journal, "rb") as file:
            file.seek(self._journal_at)
            piece = file.read()
        return piece[: piece.rfind(b"\n") + 1]

    def _note(self, event: dict[str, Any]) -> None:
        if event["event"] == journal.STEP_STARTED and {"id", "folder"} <= set(event):
            self._current = event
        elif event["event"] == journal.STEP_ENDED:
            self._current = None
        elif event["event"] == journal.RUN_ENDED:
            self._ended = True

    # -- the live line

    def _tell_tail(self) -> None:
        """The last line of the running job's log, when it changed, a few times a second."""
        if self._current is None or time.monotonic() < self._tail_at:
            return
        self._tail_at = time.monotonic() + _TAIL_S
        lines = last_lines(_end_of(self._run.step(self._current["folder"], "log")), 1)
        if lines and lines[0] != self._told_tail:
            self._told_tail = lines[0]
            self._link.tell("tail", id=self._current["id"], line=lines[0][:300])

    # -- the controller

    def _left(self) -> bool:
        """Hear the controller out; True when it said good-bye or has been silent too long."""
        while self._link.waiting(_LOOK_S):
            frame = self._link.next()
            if isinstance(frame, Data):
                continue
            if frame["type"] == "detach":
                self._link.tell("bye")
                return True
            if frame["type"] == "cancel":
                order_cancel(self._run, str(frame.get("who", "")))
        return time.monotonic() - self._link.heard_at > _SILENCE_S

    def _beat(self) -> None:
        if time.monotonic() > self._beat_at:
            self._beat_at = time.monotonic() + _BEAT_S
            self._link.tell("beat", at=journal.now())

    # -- the bundle

    def _mend_bundle(self) -> None:
        """Make a damaged bundle anew, where all of it is asked for and it is finished.

        A controller that got damaged bytes throws them away and asks from the beginning again.
        """

        def is_good(run: RunFolder) -> bool:
            return is_sound(run, self._beat)

        finished = is_whole(self._run) and not is_supervised(self._run)
        if not self._bundle_at and finished and not is_good(self._run):
            rescue(self._run, is_good)

    def _send_bundle(self) -> None:
        """Send the zip, also while it is still growing."""
        while not self._send_one_bundle():
            # The new one may hold less: files that nobody can look through for secrets any more.
            self._link.tell("bundle_anew")
            self._bundle_at = 0
        while self._tell_journal():
            continue
        with open(self._run.bundle_facts, encoding="utf-8") as facts:
            self._link.tell("bundle_end", **json.load(facts))

    def _send_one_bundle(self) -> bool:
        """Send the bundle that is there to its end; False when another one took its place."""
        with self._open_bundle() as file:
            while True:
                self._tell_journal()
                whole = os.path.exists(self._run.bundle_facts)
                sent = self._link.send_from("bundle", self._bundle_at, file, _BUNDLE_PIECE_BYTES)
                self._bundle_at += sent
                if sent:
                    continue
                if whole:
                    return True
                if not is_supervised(self._run) and not os.path.exists(self._run.bundle_facts):
                    # It died over the bundle, which has the same first bytes when written anew.
                    if rescue(self._run) and self._has_secrets():
                        return False
                    continue
                self._beat()
                time.sleep(_LOOK_S)

    def _has_secrets(self) -> bool:
        with open(self._run.plan, encoding="utf-8") as file:
            return bool(Plan.from_json(file.read()).secrets)

    def _note_that_it_is_home(self) -> None:
        """Mark the run as one that may be swept, once the controller says that it has everything.

        What was written to a link may still be lost in it, so that alone counts for nothing.
        """
        end = time.monotonic() + _CONFIRM_S
        while self._link.waiting(end - time.monotonic()):
            frame = self._link.next()
            if not isinstance(frame, Data) and frame["type"] == "home":
                # A disk without room for the mark costs no more than the question at a sweep.
                with contextlib.suppress(OSError):
                    os.close(os.open(self._run.sent_home, os.O_WRONLY | os.O_CREAT, 0o644))
                return

    def _open_bundle(self) -> IO[bytes]:
        """The bundle, or what there is of it while somebody writes it; else it is made anew."""
        rescues_left = _RESCUES
        while True:
            whole = is_whole(self._run)
            if whole or not os.path.exists(self._run.bundle_facts):
                path = self._run.bundle if whole else f"{self._run.bundle}.part"
                with contextlib.suppress(FileNotFoundError):
                    return open(path, "rb", buffering=0)
            if not is_supervised(self._run):
                if not rescues_left:
                    raise Refusal("no_bundle", f"{self._run.bundle} is gone as soon as it is made")
                rescues_left -= rescue(self._run)
            self._beat()
            time.sleep(_LOOK_S)


def _end_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - _TAIL_BYTES, 0))
            return file.read(_TAIL_BYTES)
    except FileNotFoundError:
        return b""
