"""A tree on the host's disk, and the proof that it is the tree of the laptop.

The manifest is what `git ls-tree -r -z` printed on the laptop. Every file is verified against its
blob's hash as it is written, and the root hash is computed anew from what was written, in git's own
way: equal root hashes mean equal trees.
"""

from __future__ import annotations

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Iterable, Sequence

from orchestrator.agent.blobs import BlobStore

REGULAR, EXECUTABLE, SYMLINK = "100644", "100755", "120000"
_HEAD = re.compile(rb"(100644|100755|120000) blob ([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_NOT_A_NAME = frozenset((b"", b".", b".."))
_MODES = {REGULAR: 0o644, EXECUTABLE: 0o755}
# Hashing and writing release the interpreter lock; more threads than this only get in the way.
_WRITERS = 2


class TreeError(Exception):
    """A manifest that cannot be written out, or whose root hash is not the announced one."""


@dataclass(frozen=True)
class Entry:
    """One file of a tree: git's mode, the blob's hash, the path in bytes with forward slashes."""

    mode: str
    blob: str
    path: bytes


def entries(manifest: bytes) -> list[Entry]:
    """The entries of a manifest.

    Raises:
        TreeError: a record is damaged, of an unknown mode, or leaves the tree.
    """
    found = []
    for record in manifest.split(b"\0"):
        if not record:
            continue
        head, tab, path = record.partition(b"\t")
        match = _HEAD.fullmatch(head)
        if match is None or not tab:
            raise TreeError(f"the manifest holds {record[:80]!r}, which is not a file")
        if not _NOT_A_NAME.isdisjoint(path.split(b"/")):
            raise TreeError(f"the manifest names {path!r}, outside the tree")
        found.append(Entry(match[1].decode("ascii"), match[2].decode("ascii"), path))
    return found


def make_folders(found: Iterable[Entry], top: bytes) -> None:
    """The directories of a tree, below a top that is made when it is missing."""
    os.makedirs(top, exist_ok=True)
    for folder in sorted({os.path.dirname(entry.path) for entry in found}):
        os.makedirs(os.path.join(top, folder), exist_ok=True)


def write(store: BlobStore, found: Sequence[Entry], top: bytes) -> int:
    """Write files of a tree, whose directories exist; returns the bytes written.

    Raises:
        BlobError: a stored blob is damaged.
        OSError: the disk is full, a path is too long, ...
    """
    chunks = [found[start::_WRITERS] for start in range(_WRITERS)]
    with ThreadPoolExecutor(_WRITERS) as pool:
        return sum(pool.map(lambda chunk: _write_some(store, chunk, top), chunks))


def _write_some(store: BlobStore, found: Sequence[Entry], top: bytes) -> int:
    return sum(write_entry(store, entry, top) for entry in found)


def write_entry(store: BlobStore, entry: Entry, top: bytes) -> int:
    """Write one file or link below `top`, whose directories exist; returns the bytes written."""
    path = os.path.join(top, entry.path)
    if entry.mode == SYMLINK:
        _link(store, entry, path, top)
        return 0
    return store.copy_out(entry.blob, os.fsdecode(path), _MODES[entry.mode])


def _link(store: BlobStore, entry: Entry, path: bytes, top: bytes) -> None:
    """The laptop refuses links that leave the tree; the host does not rely on that."""
    target = store.read(entry.blob)
    landing = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if os.path.isabs(target) or not (landing + b"/").startswith(top + b"/"):
        raise TreeError(f"the link {entry.path!r} leaves the tree")
    os.symlink(target, path)


def root_hash(found: list[Entry], object_format: str) -> str:
    """The hash that git gives the tree of these entries.

    Source: git's tree object, "<mode> <name>\\0<binary hash>" for each entry, ordered by name with
    a directory's name compared as if it ended in a slash.

    Raises:
        TreeError: a path stands twice, or is a file and a directory; git has no such tree.
    """
    tree: dict[bytes, object] = {}
    for entry in found:
        *folders, name = entry.path.split(b"/")
        node = tree
        for folder in folders:
            child = node.setdefault(folder, {})
            if not isinstance(child, dict):
                raise TreeError(f"{entry.path!r} lies in what is a file and a directory")
            node = child
        if name in node:
            what = "is a file and a directory" if isinstance(node[name], dict) else "stands twice"
            raise TreeError(f"the path {entry.path!r} {what}")
        node[name] = entry
    return _hash_node(tree, object_format)


def _hash_node(node: dict[bytes, object], object_format: str) -> str:
    rows = []
    for name, child in node.items():
        if isinstance(child, dict):
            rows.append((name + b"/", b"40000 " + name, _hash_node(child, object_format)))
        else:
            assert isinstance(child, Entry)
            rows.append((name, child.mode.encode("ascii") + b" " + name, child.blob))
    body = b"".join(
        head + b"\0" + bytes.fromhex(digest) for _, head, digest in sorted(rows, key=_by_name)
    )
    algorithm = hashlib.sha256 if object_format == "sha256" else hashlib.sha1
    return algorithm(b"tree %d\0" % len(body) + body).hexdigest()


def _by_name(row: tuple[bytes, bytes, str]) -> bytes:
    return row[0]
