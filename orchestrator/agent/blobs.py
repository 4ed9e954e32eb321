"""File contents by their git hash: what the host has once, it is never sent again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from typing import Iterable

_COPY_BYTES = 1 << 20


class BlobError(Exception):
    """Bytes that do not have the hash they were announced under."""


def hasher(object_format: str, size: int) -> hashlib._Hash:
    """git's hash of a blob of that size, before its content."""
    digest = hashlib.sha256() if object_format == "sha256" else hashlib.sha1()  # noqa: S324 - git's
    digest.update(b"blob %d\0" % size)
    return digest


class BlobStore:
    """A directory of blobs; each is written under a temporary name, verified, then renamed."""

    def __init__(self, path: str, object_format: str) -> None:
        self._path = path
        self._format = object_format

    def place(self, blob: str) -> str:
        return os.path.join(self._path, blob[:2], blob[2:])

    def missing(self, blobs: Iterable[str]) -> list[str]:
        """Those that the store lacks, each once, in order.

        One directory listing answers for up to 256 names; a look-up of each would cost a system
        call for every file of a large tree.
        """
        known: dict[str, frozenset[str]] = {}
        wanting = []
        for blob in dict.fromkeys(blobs):
            prefix = blob[:2]
            if prefix not in known:
                known[prefix] = self._names(prefix)
            if blob[2:] not in known[prefix]:
                wanting.append(blob)
        return wanting

    def receive(self, blob: str, size: int) -> IncomingBlob:
        """A blob that arrives in pieces."""
        return IncomingBlob(self, blob, size, self._format)

    def copy_out(self, blob: str, target: str, mode: int) -> int:
        """Write a blob's content to a new file, verifying it on the way; returns its size.

        Raises:
            BlobError: the stored bytes are not the blob; the damaged file is removed, so that the
                next run fetches it anew.
        """
        source = self.place(blob)
        with open(source, "rb", buffering=0) as reader:
            size = os.fstat(reader.fileno()).st_size
            digest = hasher(self._format, size)
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            try:
                while True:
                    piece = reader.read(_COPY_BYTES)
                    if not piece:
                        break
                    digest.update(piece)
                    os.write(handle, piece)
            finally:
                os.close(handle)
        if digest.hexdigest() != blob:
            os.unlink(source)
            raise BlobError(f"the stored blob {blob} is damaged and was removed; run again")
        return size

    def size(self, blob: str) -> int:
        return os.stat(self.place(blob)).st_size

    def read(self, blob: str) -> bytes:
        with open(self.place(blob), "rb") as file:
            return file.read()

    def _names(self, prefix: str) -> frozenset[str]:
        try:
            return frozenset(os.listdir(os.path.join(self._path, prefix)))
        except FileNotFoundError:
            return frozenset()


class IncomingBlob:
    """One blob on its way into the store."""

    def __init__(self, store: BlobStore, blob: str, size: int, object_format: str) -> None:
        self._store = store
        self._blob = blob
        self._missing = size
        self._digest = hasher(object_format, size)
        folder = os.path.dirname(store.place(blob))
        os.makedirs(folder, exist_ok=True)
        self._handle, self._temporary = tempfile.mkstemp(prefix=".part-", dir=folder)

    @property
    def complete(self) -> bool:
        return self._missing == 0

    @property
    def missing_bytes(self) -> int:
        return self._missing

    def write(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._missing -= len(piece)
        view = memoryview(piece)
        while view:
            view = view[os.write(self._handle, view) :]

    def finish(self) -> None:
        """Verify and keep the blob.

        Raises:
            BlobError: the bytes are not what was announced; nothing is kept.
        """
        os.close(self._handle)
        if self._missing or self._digest.hexdigest() != self._blob:
            os.unlink(self._temporary)
            raise BlobError(f"the bytes sent for {self._blob} have another hash")
        os.replace(self._temporary, self._store.place(self._blob))

    def abandon(self) -> None:
        os.close(self._handle)
        os.unlink(self._temporary)
