"""Putting one exact tree on the host and starting its run there.

Four crossings after the login until the first job runs: the channel, its command, the answer which
blobs the host lacks, and the blobs themselves. When it lacks none, the last one falls away; on a
first visit the answer is not waited for, since it is known.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import Unreachable
from orchestrator.link import outflow
from orchestrator.link.session import LinkLost, Session
from orchestrator.source import size, tree, wire
from orchestrator.source.snapshot import Snapshot

NEED_DEADLINE_S = 120.0
LENT_DEADLINE_S = 5.0
# Verifying and writing a large tree on a slow disk; the agent is silent meanwhile.
START_DEADLINE_S = 900.0

_PARCEL = struct.Struct("!IBQQ")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Order:
    """What is to be run: the tree, the plan made for it, and the values of secret variables.

    The values go to the supervisor's memory, never to a disk.
    """

    snapshot: Snapshot
    plan_json: str
    secrets: Mapping[str, str]
    max_bytes: int


def push(session: Session, order: Order, progress: Progress, *, first_visit: bool = False) -> None:
    """Send a tree and its plan; returns when the supervisor on the host has taken over.

    Args:
        progress: called with the bytes sent and the bytes in all, first when none is sent
            yet; the last call comes before the host can know that it has everything.
        first_visit: the host has most likely never seen this code, so everything is sent at once.

    Raises:
        SourceError: the host lacks more than `max_bytes`; nothing was sent.
        Refused: the host will not run it.
    """
    wanted = _blob_names(order.snapshot)
    sizes = _sizes(order.snapshot, wanted) if first_visit else {}
    if first_visit and sum(sizes.values()) <= order.max_bytes:
        _ask(session, order, eager=True)
        _send_blobs(session, order.snapshot, wanted, sizes, progress)
        session.expect("welcome", NEED_DEADLINE_S)
        session.expect("need", NEED_DEADLINE_S)
    else:
        missing = _hear_what_is_missing(session, order, wanted)
        if missing:
            sizes = _sizes(order.snapshot, missing)
            _check_size(order, sizes)
            _send_blobs(session, order.snapshot, missing, sizes, progress)
    session.expect("started", START_DEADLINE_S)


def _hear_what_is_missing(session: Session, order: Order, wanted: Sequence[str]) -> list[str]:
    """Ask, and hear which blobs the host lacks, in the order of the manifest."""
    _ask(session, order)
    if session.is_lent:
        try:
            session.expect("welcome", LENT_DEADLINE_S)
        except (Unreachable, LinkLost):
            # The link died a moment ago and nobody knew: nothing was started there.
            session.connect_anew()
            _ask(session, order)
            session.expect("welcome", NEED_DEADLINE_S)
    else:
        session.expect("welcome", NEED_DEADLINE_S)
    need = session.expect("need", NEED_DEADLINE_S)
    bits = f"{int(str(need['bitmap']), 16):0{len(wanted)}b}" if wanted else ""
    return [blob for blob, bit in zip(wanted, bits, strict=True) if bit == "1"]


def _ask(session: Session, order: Order, *, eager: bool = False) -> None:
    session.open("run", plan=order.plan_json, secrets=dict(order.secrets), eager=eager)
    outflow.send(session, "manifest", iter([order.snapshot.manifest]))


def _send_blobs(
    session: Session,
    snapshot: Snapshot,
    blobs: Sequence[str],
    sizes: Mapping[str, int],
    progress: Progress,
) -> None:
    """Each blob behind a header (`agent.session` reads it): index, encoding, both sizes."""
    total = sum(sizes.values())
    if total:
        progress(0, total)

    def chunks() -> Iterator[bytes]:
        sent = 0
        for parcel, pieces in wire.parcels(
            snapshot.repository.git, blobs, as_deflated=lambda: session.packer.level == 0
        ):
            yield _PARCEL.pack(
                parcel.index, parcel.encoding, parcel.wire_bytes, parcel.content_bytes
            )
            yield from pieces
            sent += parcel.content_bytes
            if sent < total:
                progress(sent, total)

    outflow.send(session, "blobs", chunks(), lambda: progress(total, total))


def _blob_names(snapshot: Snapshot) -> list[str]:
    return list(dict.fromkeys(entry.blob for entry in tree.entries(snapshot.manifest)))


def _sizes(snapshot: Snapshot, blobs: Sequence[str]) -> dict[str, int]:
    return tree.sizes(snapshot.repository.git, blobs)


def _check_size(order: Order, sizes: Mapping[str, int]) -> None:
    if sum(sizes.values()) > order.max_bytes:
        entries = tree.entries(order.snapshot.manifest)
        named = {entry.path: sizes[entry.blob] for entry in entries if entry.blob in sizes}
        size.refuse_above(order.max_bytes, named, "the host lacks files of")
