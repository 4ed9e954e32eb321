"""The controller's end of the link: the agent sent ahead, then frames both ways."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from orchestrator.agent import frames
from orchestrator.agent.frames import Data, Frame, FrameError, Packer, StreamEnded
from orchestrator.errors import ProtocolError, Unreachable
from orchestrator.link import agentzip, bootstrap, carriers, courier, deflate, greeting
from orchestrator.link.pipe import STALL_S, Pipe
from orchestrator.link.refusal import raise_if_refused
from orchestrator.spec.hosts import Host

# The agent says something every 5 s; three missed words, and the link counts as dead.
SILENCE_S = 20.0
PING_S = 10.0
_QUEUED_FRAMES = 64
_LAST_WORDS_S = 2.0
_SSH_FAILED = 255


class LinkLost(Exception):
    """The link broke in mid-conversation; the run on the host goes on."""


class Session:
    """One conversation with the agent on a host. Use as a context manager."""

    def __init__(self, name: str, host: Host, *, borrow: bool = False) -> None:
        """Connect.

        Args:
            borrow: take the connection of the host's courier, if there is one.
        """
        self._name = name
        self._host = host
        lent = courier.borrow(name, host) if borrow else None
        self.is_lent = lent is not None
        # Deflating costs more than a local pipe or a fast bus would.
        self.packer = Packer(None if host.carrier == "local" else deflate.quickly)
        self._start(lent or carriers.open_pipe(name, host))

    def _start(self, pipe: Pipe) -> None:
        self._pipe: Pipe = pipe
        self._heard: queue.Queue[Frame | BaseException] = queue.Queue(_QUEUED_FRAMES)
        self._closed = threading.Event()
        self._pinged_at = time.monotonic()
        # Of any byte: over a slow link a frame alone can take long.
        self.heard_at = time.monotonic()
        self._noise = bytearray()
        self.greeted = False
        self._reader = threading.Thread(target=self._listen, name="link reader", daemon=True)
        self._reader.start()

    @property
    def noise(self) -> bytes:
        """What came before the greeting."""
        return bytes(self._noise)

    def connect_anew(self) -> None:
        """Give up a lent connection that does not answer, and make one of our own."""
        self.close()
        self.is_lent = False
        self._start(carriers.open_pipe(self._name, self._host))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, action: str, *, has_agent: bool = False, **facts: Any) -> None:
        """Send the agent and say what is wanted, all in one breath.

        Args:
            has_agent: the host is believed to have this agent, which is not sent then; if it has
                not, the link ends before the greeting.
        """
        hello = {
            "type": "hello",
            "protocol": frames.PROTOCOL,
            "action": action,
            "root": self._host.root,
            "compress": self._host.carrier != "local",
            **facts,
        }
        # Behind a lent connection the agent has been started already.
        opening = b"" if self.is_lent else self._opening(has_agent)
        self._write(opening + frames.message(hello))

    def _opening(self, has_agent: bool) -> bytes:
        return bootstrap.opening(
            b"" if has_agent else agentzip.build(),
            name=agentzip.name(),
            files=agentzip.files(),
            root=self._host.root,
            interpreter=carriers.first_line(self._host),
        )

    def may_lack_agent(self) -> bool:
        """Whether the link that ended may have done so since the host had no agent to start."""
        if self.greeted:
            return False
        code = self._pipe.exit_code()
        if self._host.carrier == "openssh" and code == _SSH_FAILED:
            return False
        # A carrier may have a code of its own, or none.
        return code == bootstrap.AGENT_GONE or code not in bootstrap.EXIT_CODES

    def leave(self) -> None:
        """Close without waiting: everything that matters has been said and heard."""
        self._closed.set()
        threading.Thread(target=self.close, name="link closer", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._pipe.close()
        # The reader may stand before a full queue that nobody empties any more.
        while self._reader.is_alive():
            try:
                self._heard.get(timeout=0.05)
            except queue.Empty:
                self._reader.join(timeout=0.05)

    # -- telling

    def tell(self, kind: str, **facts: Any) -> None:
        self._write(frames.message({"type": kind, **facts}))

    def write(self, frame: bytes) -> None:
        """Send a frame that is packed already."""
        self._write(frame)

    def _write(self, data: bytes) -> None:
        try:
            self._pipe.write(data)
        except (OSError, EOFError) as error:
            self._raise_what_it_said()
            raise self._explained(error) from error

    def _raise_what_it_said(self) -> None:
        """An agent that refuses, or breaks, says so before it stops reading."""
        end = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < end:
            try:
                heard = self._heard.get(timeout=0.1)
            except queue.Empty:
                continue
            if isinstance(heard, BaseException):
                self._heard.put(heard)
                return
            if not isinstance(heard, Data):
                raise_if_refused(self._name, heard)

    # -- hearing

    def next(self, wait_s: float) -> Frame | None:
        """The next frame, or None when nothing came in that time.

        Raises:
            LinkLost, HostError: the link is gone; the error says what the carrier said.
            Refused: the agent said no.
            InternalError: the agent is broken; its traceback is in the text.
        """
        if time.monotonic() - self._pinged_at > PING_S:
            self._pinged_at = time.monotonic()
            self.tell("ping")
        try:
            heard = self._heard.get(timeout=max(wait_s, 0))
        except queue.Empty:
            return None
        if isinstance(heard, BaseException):
            raise self._explained(heard)
        if not isinstance(heard, Data):
            raise_if_refused(self._name, heard)
        return heard

    def expect(self, kind: str, deadline_s: float) -> Mapping[str, Any]:
        """The next message, which must be of that type.

        Raises:
            Unreachable: nothing came in that time.
            ProtocolError: something else came.
        """
        frame = self.next(deadline_s)
        if frame is None:
            raise Unreachable(
                f"`{self._name}` connected, but its agent said nothing for {deadline_s:.0f} s",
                fix=f"orch doctor {self._name}",
            )
        if isinstance(frame, Data) or frame["type"] != kind:
            raise ProtocolError(f"`{self._name}` said something else than `{kind}`: {frame!r:.200}")
        return frame

    def _listen(self) -> None:
        """Runs in its own thread: a pipe on Windows cannot be waited for in any other way."""
        try:
            greeting.skip_noise(self._pipe.read, self._noise)
            self.greeted = True
            for frame in frames.read_frames(self._read):
                self._put(frame)
        except FrameError as error:
            self._put(error)
            # Whoever is not heard out takes nothing either, and somebody may be telling it a lot.
            while not self._closed.is_set() and self._pipe.read(greeting.MAX_NOISE_BYTES):
                pass
        except BaseException as error:  # noqa: BLE001 - raised again where somebody hears it
            self._put(error)

    def _read(self, count: int) -> bytes:
        piece = self._pipe.read(count)
        self.heard_at = time.monotonic()
        return piece

    def _put(self, heard: Frame | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._heard.put(heard, timeout=0.2)
            except queue.Full:
                continue
            return

    def _explained(self, error: BaseException) -> BaseException:
        """What the user hears when the link fails, from the most telling source there is."""
        if isinstance(error, FrameError):
            return ProtocolError(
                f"what `{self._name}` sends is not our protocol: {error}",
                fix=f"orch doctor {self._name}",
            )
        if not isinstance(error, (StreamEnded, OSError, EOFError)):
            return error
        if isinstance(error, TimeoutError):
            stalled = f"`{self._name}` took nothing of what it was sent for {STALL_S:.0f} s"
            if self.greeted:
                return LinkLost(stalled)
            return Unreachable(
                f"{stalled}, and its agent has not started", fix=f"orch doctor {self._name}"
            )
        said, code = self._pipe.last_words(), self._pipe.exit_code()
        if self._host.carrier == "openssh" and code == _SSH_FAILED:
            from orchestrator.link import openssh

            explained = openssh.explain(self._name, self._host, said)
            return LinkLost(str(explained)) if self.greeted else explained
        if self.greeted:
            return LinkLost(said or "the connection ended without a word")
        if code is None and not said:
            return LinkLost("the connection ended before the agent spoke")
        noise = self.noise.decode("utf-8", "replace").strip()
        reason = bootstrap.EXIT_CODES.get(code or 0, f"exit code {code}" if code else "")
        parts = [part for part in (reason, said, noise[-300:]) if part]
        mend = "set `agent_python:` of the host"
        if code == bootstrap.NO_ROOT:
            mend = f"set `root:` of the host, `{self._host.root}`, to a place that can be written"
        return Unreachable(
            f"the agent did not start on `{self._name}`: {'; '.join(parts) or 'no reason given'}",
            fix=f"{mend}, or run `orch doctor {self._name}`",
        )
