"""File contents by their git hash: what the host has once, it is never sent again.

Each push adds one pack: the contents one behind the other in `<name>.pack`, and in `<name>.index` a
row for each blob (hash, offset, size). A file for each blob would be simpler and ten times slower:
file systems are slow at making many small files all over a tree. An index is written when its pack
is whole, or as whole as a broken link left it; every read is verified against the hash.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from typing import Iterable, Iterator

_ROW = struct.Struct("!QQ")
PACK, INDEX = ".pack", ".index"


class BlobError(Exception):
    """Bytes that do not have the hash they were announced under."""


def hasher(object_format: str, size: int) -> hashlib._Hash:
    """git's hash of a blob of that size, before its content."""
    digest = hashlib.sha256() if object_format == "sha256" else hashlib.sha1()  # noqa: S324 - git's
    digest.update(b"blob %d\0" % size)
    return digest


def rows_of(folder: str, name: str) -> Iterator[tuple[str, int, int]]:
    """Hash, offset and size of every blob of a pack; its name ends in the object format."""
    hash_bytes = 32 if name.endswith(".sha256") else 20
    with open(os.path.join(folder, name + INDEX), "rb") as file:
        data = file.read()
    step = hash_bytes + _ROW.size
    for start in range(0, len(data) - step + 1, step):
        offset, size = _ROW.unpack_from(data, start + hash_bytes)
        yield data[start : start + hash_bytes].hex(), offset, size


class BlobStore:
    """The blobs of one object format, in a directory of packs."""

    def __init__(self, folder: str, object_format: str) -> None:
        self._folder = folder
        self._format = object_format
        self._places: dict[str, tuple[str, int, int]] = {}
        self._packs: dict[str, int] = {}
        self._used: set[str] = set()
        # Two threads write a tree; they open packs, and may find damage, at the same time.
        self._turn = threading.Lock()
        for name in self._pack_names():
            for blob, offset, size in rows_of(self._folder, name):
                self._places[blob] = (name, offset, size)

    def missing(self, blobs: Iterable[str]) -> list[str]:
        """Those that the store lacks, each once, in order."""
        return [blob for blob in dict.fromkeys(blobs) if blob not in self._places]

    def size(self, blob: str) -> int:
        return self._places[blob][2]

    def read(self, blob: str) -> bytes:
        """The verified content of a blob.

        Raises:
            BlobError: the stored bytes are not the blob; it is forgotten, so that the next run
                fetches it anew.
        """
        name, offset, size = self._places[blob]
        content = self._bytes(name, offset, size)
        digest = hasher(self._format, size)
        digest.update(content)
        if digest.hexdigest() != blob:
            self._forget(blob)
            raise BlobError(f"the stored blob {blob} is damaged and was removed; run again")
        self._used.add(name)
        return content

    def _bytes(self, name: str, offset: int, size: int) -> bytes:
        """What stands there; less than asked for where the pack is cut or gone."""
        try:
            pack = self._pack(name)
        except FileNotFoundError:
            return b""
        content = os.pread(pack, size, offset)
        while len(content) < size:
            more = os.pread(pack, size - len(content), offset + len(content))
            if not more:
                break
            content += more
        return content

    def copy_out(self, blob: str, target: str, mode: int) -> int:
        """Write a blob's verified content to a new file; returns its size.

        Raises:
            BlobError: see `read`.
        """
        content = self.read(blob)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
        return len(content)

    def receive(self, name: str) -> IncomingPack:
        """A new pack of that name."""
        return IncomingPack(self, name)

    def close(self) -> None:
        """Mark the packs that were read as used now, and close them."""
        for name in self._used:
            os.utime(self._path(name, PACK))
        for handle in self._packs.values():
            os.close(handle)
        self._packs.clear()
        self._used.clear()

    # -- packs

    def _path(self, name: str, suffix: str) -> str:
        return os.path.join(self._folder, name + suffix)

    def _pack(self, name: str) -> int:
        with self._turn:
            if name not in self._packs:
                flags = os.O_RDONLY | os.O_CLOEXEC
                self._packs[name] = os.open(self._path(name, PACK), flags)
            return self._packs[name]

    def _pack_names(self) -> list[str]:
        names = os.listdir(self._folder)
        return sorted(n[: -len(INDEX)] for n in names if n.endswith(f".{self._format}{INDEX}"))

    def _write_rows(self, name: str, rows: Iterable[tuple[str, int, int]]) -> None:
        part = self._path(name, f"{INDEX}.part")
        with open(part, "wb") as file:
            for blob, offset, size in rows:
                file.write(bytes.fromhex(blob) + _ROW.pack(offset, size))
        os.replace(part, self._path(name, INDEX))

    def _forget(self, blob: str) -> None:
        with self._turn:
            place = self._places.pop(blob, None)
            if place is not None:
                rows = [row for row in rows_of(self._folder, place[0]) if row[0] != blob]
                self._write_rows(place[0], rows)

    def _add(self, name: str, rows: list[tuple[str, int, int]]) -> None:
        for blob, offset, size in rows:
            self._places[blob] = (name, offset, size)


class IncomingPack:
    """A pack while its blobs arrive. Use as a context manager: what was verified is kept."""

    def __init__(self, store: BlobStore, name: str) -> None:
        self._store = store
        self._name = f"{name}.{store._format}"
        self._rows: list[tuple[str, int, int]] = []
        self._offset = 0

    def __enter__(self) -> IncomingPack:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._handle = os.open(self._store._path(self._name, PACK), flags, 0o644)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
        if self._rows:
            self._store._write_rows(self._name, self._rows)
        else:
            os.unlink(self._store._path(self._name, PACK))

    def add(self, blob: str, size: int, pieces: Iterable[bytes]) -> None:
        """Append one blob and verify it; it can be read at once.

        Raises:
            BlobError: the bytes are not what was announced; the blob is not kept.
        """
        digest = hasher(self._store._format, size)
        written = 0
        for piece in pieces:
            digest.update(piece)
            written += len(piece)
            self._write_at(self._offset + written - len(piece), piece)
        if written != size or digest.hexdigest() != blob:
            raise BlobError(f"the bytes sent for {blob} have another hash")
        row = (blob, self._offset, size)
        self._offset += size
        self._rows.append(row)
        self._store._add(self._name, [row])

    def _write_at(self, offset: int, piece: bytes) -> None:
        """At its own place: what a refused blob left there is written over."""
        view = memoryview(piece)
        while view:
            count = os.pwrite(self._handle, view, offset)
            view, offset = view[count:], offset + count


def packs(folder: str) -> list[tuple[float, int, str, set[str]]]:
    """Last use, size in bytes, name and blobs of every pack in a store, of any object format."""
    found = []
    for file_name in os.listdir(folder):
        name = file_name[: -len(INDEX)]
        if file_name.endswith(INDEX) and os.path.exists(os.path.join(folder, name + PACK)):
            facts = os.stat(os.path.join(folder, name + PACK))
            blobs = {blob for blob, _, _ in rows_of(folder, name)}
            found.append((facts.st_mtime, facts.st_size, name, blobs))
    return found


def files_of(folder: str, name: str) -> tuple[str, str]:
    """The files of a pack, its index first: without that it is none any more."""
    return os.path.join(folder, name + INDEX), os.path.join(folder, name + PACK)


def torsos(folder: str) -> list[str]:
    """Files that are no part of a whole pack: litter, while nobody fills the store."""
    names = os.listdir(folder)
    whole = {name[: -len(INDEX)] for name in names if name.endswith(INDEX)}
    whole &= {name[: -len(PACK)] for name in names if name.endswith(PACK)}
    kept = {name + suffix for name in whole for suffix in (PACK, INDEX)}
    ours = (PACK, INDEX, f"{INDEX}.part")
    return [os.path.join(folder, n) for n in sorted(names) if n.endswith(ours) and n not in kept]
