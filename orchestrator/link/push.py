"""Putting one exact tree on the host and starting its run there.

Four crossings after the login until the first step runs: the channel, its command, the answer which
blobs the host lacks, and the blobs themselves. When it lacks none, the last one falls away.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from orchestrator.link import outflow
from orchestrator.link.session import Session
from orchestrator.source import size, tree
from orchestrator.source.snapshot import Snapshot

NEED_DEADLINE_S = 120.0
# Verifying and writing a large tree on a slow disk; the agent is silent meanwhile.
START_DEADLINE_S = 900.0

_SIZE = struct.Struct("!Q")

Progress = Callable[[int, int], None]


def push(
    session: Session,
    snapshot: Snapshot,
    plan_json: str,
    *,
    secrets: Mapping[str, str],
    max_bytes: int,
    progress: Progress,
) -> None:
    """Send the tree and the plan; returns when the supervisor on the host has taken over.

    Args:
        plan_json: the plan, whose tree is the snapshot's.
        secrets: values of secret variables; they go to the supervisor's memory, never to a disk.
        max_bytes: most bytes of file contents that may be sent.
        progress: called with the bytes sent and the bytes in all.

    Raises:
        SourceError: the host lacks more than `max_bytes`; nothing was sent.
        Refused: the host will not run it.
    """
    session.open("run", plan=plan_json, secrets=dict(secrets))
    outflow.send(session, "manifest", iter([snapshot.manifest]))
    session.expect("welcome", NEED_DEADLINE_S)
    need = session.expect("need", NEED_DEADLINE_S)
    missing = _missing(tree.entries(snapshot.manifest), str(need["bitmap"]), int(need["count"]))
    if missing:
        sizes = tree.sizes(snapshot.repository.git, missing)
        _check_size(snapshot, sizes, max_bytes)
        total = sum(sizes.values())
        outflow.send(session, "blobs", _blobs(snapshot, missing, lambda n: progress(n, total)))
    session.expect("started", START_DEADLINE_S)


def _missing(entries: Sequence[tree.Entry], bitmap: str, count: int) -> list[str]:
    """The blobs the host asked for, in the order of the manifest."""
    wanted = list(dict.fromkeys(entry.blob for entry in entries))
    bits = f"{int(bitmap, 16):0{len(wanted)}b}" if wanted else ""
    missing = [blob for blob, bit in zip(wanted, bits, strict=True) if bit == "1"]
    assert len(missing) == count, "the bitmap and its count agree"
    return missing


def _check_size(snapshot: Snapshot, sizes: Mapping[str, int], max_bytes: int) -> None:
    named = {
        entry.path: sizes[entry.blob]
        for entry in tree.entries(snapshot.manifest)
        if entry.blob in sizes
    }
    if sum(sizes.values()) > max_bytes:
        size.refuse_above(max_bytes, named, "the host lacks files of")


def _blobs(
    snapshot: Snapshot, missing: Sequence[str], progress: Callable[[int], None]
) -> Iterator[bytes]:
    sent = 0
    for _, length, chunks in tree.read_blobs(snapshot.repository.git, missing):
        yield _SIZE.pack(length)
        for chunk in chunks:
            yield chunk
            sent += len(chunk)
            progress(sent)
