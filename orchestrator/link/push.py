"""Putting one exact tree on the host and starting its run there.

Four crossings after the login until the first job runs: the channel, its command, the answer which
blobs the host lacks, and the blobs themselves. The last one falls away when the host lacks none, or
only what it was presumed to lack: everything on a first visit, else what changed since the tree it
was sent last. That goes ahead of its answer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from orchestrator.agent import bitmap
from orchestrator.errors import ProtocolError, Unreachable
from orchestrator.link import agentzip, outflow
from orchestrator.link.session import LinkLost, Session
from orchestrator.link.welcome import LENT_DEADLINE_S
from orchestrator.source import size, tree, wire
from orchestrator.source.snapshot import Snapshot
from orchestrator.store.sent import Sent

NEED_DEADLINE_S = 120.0
# Verifying and writing a large tree on a slow disk; the agent is silent meanwhile.
START_DEADLINE_S = 900.0
# Sent in vain when the presumption is wrong; about what a question costs on a fast link.
AHEAD_BYTES = 256 << 10

_PARCEL = struct.Struct("!IBQQ")

Progress = Callable[[int, int], None]
Whole = Callable[[bool], None]


def _nothing() -> None:
    """For a caller who has nothing else to do."""


def _unasked(_: bool) -> None:
    """For a caller who will not break off."""


@dataclass(frozen=True)
class Order:
    """What is to be run: the tree, the plan made for it, and the values of secret variables.

    The values go to the supervisor's memory, never to a disk.
    """

    snapshot: Snapshot
    plan_json: str
    secrets: Mapping[str, str]
    max_bytes: int


def push(
    session: Session,
    order: Order,
    progress: Progress,
    *,
    last: Sent | None,
    meanwhile: Callable[[], None] = _nothing,
    whole: Whole = _unasked,
) -> None:
    """Send a tree and its plan; returns when the supervisor on the host has taken over.

    Args:
        progress: called with the bytes sent and the bytes in all, first when none is sent yet.
        last: what this host was sent last; None when it has never seen this code.
        meanwhile: something to do while the host thinks about its answer.
        whole: told False while the host cannot have everything yet, and True before it can: from
            then on only the host knows whether it has begun.

    Raises:
        SourceError: the host lacks more than `max_bytes`; nothing runs there.
        Refused: the host will not run it.
    """
    wanted = _blob_names(order.snapshot)
    ahead = {} if session.is_lent and last is None else _presumed(order, wanted, last)

    def ask(has_agent: bool) -> None:
        facts = {"plan": order.plan_json, "secrets": dict(order.secrets)}
        whole(False)
        session.open("run", has_agent=has_agent, ahead=bitmap.encode(wanted, ahead), **facts)
        end = _nothing if ahead else partial(whole, True)
        outflow.send(session, "manifest", iter([order.snapshot.manifest]), end)
        if ahead:
            _send_blobs(session, order.snapshot, ahead, progress, whole)

    has_agent = last is not None and last.agent == agentzip.name()
    _be_welcome(session, ask, has_agent, meanwhile)
    missing = _missing(session, wanted)
    if missing:
        sizes = _sizes(order.snapshot, missing)
        _check_size(order, {**ahead, **sizes})
        _send_blobs(session, order.snapshot, sizes, progress, whole, sum(ahead.values()))
    session.expect("started", START_DEADLINE_S)


def _presumed(order: Order, wanted: Sequence[str], last: Sent | None) -> dict[str, int]:
    """What the host lacks as far as can be told from here, with sizes; nothing when too large."""
    snapshot = order.snapshot
    if last is None:
        found, most = list(wanted), order.max_bytes
    else:
        found, most = tree.new_blobs(snapshot.repository.git, last.tree, snapshot.tree), AHEAD_BYTES
    sizes = _sizes(snapshot, found)
    if sum(sizes.values()) > min(most, order.max_bytes):
        return {}
    return {blob: sizes[blob] for blob in wanted if blob in sizes}


def _be_welcome(
    session: Session, ask: Callable[[bool], None], has_agent: bool, meanwhile: Callable[[], None]
) -> None:
    """Ask, and ask again in full when the link was lent and dead, or the agent is there no more."""
    try:
        ask(has_agent)
        meanwhile()
        session.expect("welcome", LENT_DEADLINE_S if session.is_lent else NEED_DEADLINE_S)
    except (Unreachable, LinkLost):
        if not (session.is_lent or (has_agent and session.may_lack_agent())):
            raise
        session.connect_anew()
        ask(False)
        session.expect("welcome", NEED_DEADLINE_S)


def _missing(session: Session, wanted: Sequence[str]) -> list[str]:
    """What the host lacks besides what went ahead, in the order of the manifest."""
    need = session.expect("need", NEED_DEADLINE_S)
    try:
        return bitmap.decode(wanted, str(need["bitmap"]))
    except ValueError as error:
        raise ProtocolError(f"what the host needs cannot be told: {error}") from error


def _send_blobs(
    session: Session,
    snapshot: Snapshot,
    sizes: Mapping[str, int],
    progress: Progress,
    whole: Whole,
    sent_before: int = 0,
) -> None:
    """Each blob behind a header (`agent.parcels` reads it): index, encoding, both sizes.

    Args:
        sizes: the blobs, in the order in which the host counts them.
        sent_before: bytes that went ahead, for the progress.
    """
    blobs = list(sizes)
    total = sent_before + sum(sizes.values())
    whole(False)
    if total > sent_before:
        progress(sent_before, total)

    def chunks() -> Iterator[bytes]:
        sent = sent_before
        for parcel, pieces in wire.parcels(
            snapshot.repository.git, blobs, as_deflated=lambda: session.packer.deflate is None
        ):
            yield _PARCEL.pack(
                parcel.index, parcel.encoding, parcel.wire_bytes, parcel.content_bytes
            )
            yield from pieces
            sent += parcel.content_bytes
            if sent < total:
                progress(sent, total)

    def end() -> None:
        progress(total, total)
        whole(True)

    outflow.send(session, "blobs", chunks(), end)


def _blob_names(snapshot: Snapshot) -> list[str]:
    return list(dict.fromkeys(entry.blob for entry in tree.entries(snapshot.manifest)))


def _sizes(snapshot: Snapshot, blobs: Sequence[str]) -> dict[str, int]:
    return tree.sizes(snapshot.repository.git, blobs)


def _check_size(order: Order, sizes: Mapping[str, int]) -> None:
    if sum(sizes.values()) > order.max_bytes:
        entries = tree.entries(order.snapshot.manifest)
        named = {entry.path: sizes[entry.blob] for entry in entries if entry.blob in sizes}
        size.refuse_above(order.max_bytes, named, "the host lacks files of")
