"""Trees with their blobs, as a laptop would send them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from orchestrator.agent import blobs, checkout
from orchestrator.agent.blobs import BlobStore
from orchestrator.agent.checkout import EXECUTABLE, REGULAR, SYMLINK, Entry

Files = Mapping[str, bytes | tuple[str, bytes]]
"""Content by path; with git's mode in front where it is not that of a plain file."""


def blob_hash(body: bytes, object_format: str = "sha1") -> str:
    digest = blobs.hasher(object_format, len(body))
    digest.update(body)
    return digest.hexdigest()


def executable(body: bytes) -> tuple[str, bytes]:
    return EXECUTABLE, body


def link(target: bytes) -> tuple[str, bytes]:
    return SYMLINK, target


def entries(files: Files, object_format: str = "sha1") -> list[Entry]:
    """The entries of a tree, in git's order."""
    found = []
    for path, content in files.items():
        mode, body = content if isinstance(content, tuple) else (REGULAR, content)
        found.append(Entry(mode, blob_hash(body, object_format), os.fsencode(path)))
    return sorted(found, key=lambda entry: entry.path)


def manifest(files: Files, object_format: str = "sha1") -> bytes:
    """What `git ls-tree -r -z` would print."""
    return b"".join(
        f"{entry.mode} blob {entry.blob}\t".encode("ascii") + entry.path + b"\0"
        for entry in entries(files, object_format)
    )


def bodies(files: Files) -> list[bytes]:
    return [content[1] if isinstance(content, tuple) else content for content in files.values()]


def stored(
    folder: Path, files: Files, name: str = "pack", object_format: str = "sha1"
) -> BlobStore:
    """A store that holds the contents of a tree."""
    folder.mkdir(parents=True, exist_ok=True)
    store = BlobStore(str(folder), object_format)
    with store.receive(name) as pack:
        for body in dict.fromkeys(bodies(files)):
            pack.add(blob_hash(body, object_format), len(body), [body])
    return store


def tree_hash(files: Files, object_format: str = "sha1") -> str:
    return checkout.root_hash(entries(files, object_format), object_format)


def on_disk(top: Path) -> dict[str, bytes | tuple[str, bytes]]:
    """What lies in a directory, in the words above."""
    found: dict[str, bytes | tuple[str, bytes]] = {}
    for folder, inner, names in os.walk(top):
        for name in [*names, *(n for n in inner if Path(folder, n).is_symlink())]:
            path = Path(folder, name)
            key = str(path.relative_to(top))
            if path.is_symlink():
                found[key] = link(os.fsencode(path.readlink()))
            elif path.stat().st_mode & 0o100:
                found[key] = executable(path.read_bytes())
            else:
                found[key] = path.read_bytes()
    return found


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
