"""The bundle: everything a run leaves, as one zip that only ever grows while it is written.

Members are written one behind the other, so a reader may follow the file while it is being made.
The last member is the manifest. Files that do not shrink are stored as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
import zlib
from typing import IO, Any, Callable, Iterator

from orchestrator.agent import manifest
from orchestrator.agent.layout import RunFolder, write_atomically

_PIECE_BYTES = 1 << 20
_SAMPLE_BYTES = 64 << 10
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_MEMBERS = (
    "plan.json",
    "journal.jsonl",
    "supervisor.log",
    "activation.log",
    "environment.before.json",
    "environment.after.json",
)


def _nothing() -> None:
    """For a bundle whose journal is whole already."""


class _Growing:
    """A file that zipfile cannot seek in, and the size of what went through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0

    def write(self, piece: bytes) -> int:
        self.size += len(piece)
        return self._file.write(piece)

    def flush(self) -> None:
        self._file.flush()


def write(run: RunFolder, *, before_the_journal: Callable[[], None] = _nothing) -> dict[str, Any]:
    """Write the bundle of a run; returns its facts: size, files, sha256 of its manifest.

    The zip grows under `bundle.zip.part`, gets its name when it is whole, and `bundle.json` with
    the facts says so.

    Args:
        before_the_journal: called when everything is in that needs no last word.
    """
    part = f"{run.bundle}.part"
    members = []
    with open(part, "wb", buffering=_PIECE_BYTES) as file:
        growing = _Growing(file)
        sink: Any = growing
        with zipfile.ZipFile(sink, "w", allowZip64=True) as archive:
            for path, name in _folder_files(run, "steps"):
                members.append(_add(archive, path, name))
                file.flush()
            before_the_journal()
            for path, name in _other_files(run):
                members.append(_add(archive, path, name))
            contents = manifest.Manifest(run.run_id, tuple(members)).to_json().encode("utf-8")
            info = _info(manifest.FILE_NAME, 0o644, zipfile.ZIP_DEFLATED)
            archive.writestr(info, contents)
    os.replace(part, run.bundle)
    facts = {
        "size": growing.size,
        # The manifest vouches for every other member; hashing the zip once more would say no more.
        "manifest_sha256": hashlib.sha256(contents).hexdigest(),
        "files": len(members),
    }
    write_atomically(run.bundle_facts, json.dumps(facts))
    return facts


def _other_files(run: RunFolder) -> Iterator[tuple[str, str]]:
    """Paths on disk and their names in the bundle."""
    yield from _folder_files(run, "environment")
    for name in _MEMBERS:
        if os.path.isfile(run.inside(name)):
            yield run.inside(name), name


def _folder_files(run: RunFolder, top: str) -> Iterator[tuple[str, str]]:
    for folder, inner, names in os.walk(run.inside(top)):
        inner.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                yield path, manifest.portable_path(os.path.relpath(path, run.path))


def _add(archive: zipfile.ZipFile, path: str, name: str) -> manifest.Member:
    digest = hashlib.sha256()
    size = 0
    with open(path, "rb", buffering=0) as source:
        facts = os.fstat(source.fileno())
        mode = stat.S_IMODE(facts.st_mode)
        info = _info(name, mode, _method(source))
        info.file_size = facts.st_size
        with archive.open(info, "w", force_zip64=facts.st_size > 1 << 30) as target:
            while True:
                piece = source.read(_PIECE_BYTES)
                if not piece:
                    break
                digest.update(piece)
                size += len(piece)
                target.write(piece)
    return manifest.Member(name, size, digest.hexdigest(), mode)


def _info(name: str, mode: int, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _FIXED_TIME)
    info.compress_type = method
    info.external_attr = (stat.S_IFREG | mode) << 16
    # Level 1 shrinks logs nearly as well as level 6, four times as fast.
    info._compresslevel = 1  # type: ignore[attr-defined]
    return info


def _method(source: IO[bytes]) -> int:
    sample = source.read(_SAMPLE_BYTES)
    source.seek(0)
    if len(sample) < 64 or len(zlib.compress(sample, 1)) > 0.9 * len(sample):
        return zipfile.ZIP_STORED
    return zipfile.ZIP_DEFLATED
