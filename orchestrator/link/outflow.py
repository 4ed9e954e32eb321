"""Sending a long stream: deflated ahead of the link, as hard as the link leaves time for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from orchestrator.agent.frames import PIECE_BYTES, Packer
from orchestrator.link import deflate
from orchestrator.link.session import Session

# zlib releases the interpreter lock, so two pieces are deflated while a third is being sent.
_WORKERS = 2
_AHEAD = 4
_WAYS = (None, deflate.quickly, deflate.well)
# 8 MiB: as much as the buffers on the way swallow before a slow link shows itself.
JUDGED_PIECES = 32
# The harder way takes up to thirty times the work; the processors are not only ours.
_HARDER = 50


def _nothing() -> None:
    """For a stream whose end means no more than its pieces."""


def send(
    session: Session,
    name: str,
    chunks: Iterator[bytes],
    before_the_end: Callable[[], None] = _nothing,
) -> None:
    """Send chunks of any size as a stream of pieces, then its end."""
    waiting: deque[Future[_Packed]] = deque()
    tuner = Tuner(session.packer) if session.packer.deflate else None
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="deflate") as pool:
        offset = 0
        for piece in _pieces(chunks):
            waiting.append(pool.submit(_pack, session.packer, name, offset, piece))
            offset += len(piece)
            if len(waiting) >= _AHEAD:
                _send_first(session, waiting, tuner)
        while waiting:
            _send_first(session, waiting, tuner)
    before_the_end()
    session.tell(f"{name}_end")


@dataclass(frozen=True)
class _Packed:
    frame: bytes
    work_s: float


def _pack(packer: Packer, name: str, offset: int, piece: bytes) -> _Packed:
    begun = time.thread_time()
    return _Packed(packer.data(name, offset, piece), time.thread_time() - begun)


def _send_first(session: Session, waiting: deque[Future[_Packed]], tuner: Tuner | None) -> None:
    begun = time.monotonic()
    packed = waiting.popleft().result()
    ready = time.monotonic()
    session.write(packed.frame)
    if tuner is not None:
        tuner.note(ready - begun, packed.work_s, time.monotonic() - ready)


def _pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    held_bytes = 0
    for chunk in chunks:
        held.append(chunk)
        held_bytes += len(chunk)
        if held_bytes >= PIECE_BYTES:
            body = b"".join(held)
            whole = len(body) - len(body) % PIECE_BYTES
            yield from (body[start : start + PIECE_BYTES] for start in range(0, whole, PIECE_BYTES))
            held, held_bytes = [body[whole:]], len(body) - whole
    rest = b"".join(held)
    if rest:
        yield rest


class Tuner:
    """Chooses the way: harder while we wait for the link, lighter while the link waits for us."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self._forget()

    def _forget(self) -> None:
        self._waiting_s = self._work_s = self._sending_s = 0.0
        self._pieces = 0

    def note(self, waiting_s: float, work_s: float, sending_s: float) -> None:
        """One piece: how long it was waited for, worked on, and sent."""
        self._waiting_s += waiting_s
        self._work_s += work_s
        self._sending_s += sending_s
        self._pieces += 1
        if self._pieces < JUDGED_PIECES:
            return
        place = _WAYS.index(self._packer.deflate)
        if self._waiting_s > 2 * self._sending_s and place > 0:
            self._packer.deflate = _WAYS[place - 1]
        elif self._sending_s > _HARDER * self._work_s and place < len(_WAYS) - 1:
            self._packer.deflate = _WAYS[place + 1]
        self._forget()
