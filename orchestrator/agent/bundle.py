"""The bundle: everything a run leaves, as one zip that only ever grows while it is written.

Members are written one behind the other, so a reader may follow the file while it is being made:
the steps (results and logs before all else), then the conditions, then the journal, then the
manifest. Files that do not shrink are stored as they are, and the same files give the same bytes. A
file that cannot come along is told; no such file costs the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import zipfile
import zlib
from typing import Any, Callable, Sequence

from orchestrator.agent import manifest
from orchestrator.agent.layout import RunFolder, write_atomically
from orchestrator.agent.manifest import MAX_BYTES, MAX_FILES, Manifest, Member, Places
from orchestrator.agent.plainfile import holds_any, open_plain
from orchestrator.agent.reserve import Reserve, is_full
from orchestrator.agent.roomleft import SMALL_BYTES, fitting, is_record, records_first
from orchestrator.agent.stepfiles import MEMBERS, files_below, tell_what_is_no_file

# What the steps leave to the conditions and the journal.
RESERVED_FILES = 1000
RESERVED_BYTES = 1 << 30
# Small beside the reserve: what a full disk did not take of a piece must fit into that.
_PIECE_BYTES = 256 << 10
_BUFFER_BYTES = 128 << 10
_SAMPLE_BYTES = 64 << 10
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def _nothing() -> None:
    """For a run of which everything has been said already."""


def write(
    run: RunFolder,
    *,
    note: Callable[[str], None],
    lost: Callable[[str], None],
    after_the_steps: Callable[[], None] = _nothing,
    before_the_journal: Callable[[], None] = _nothing,
    secrets: Sequence[bytes] = (),
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the bundle of a run; returns its facts: size, crc32, files, sha256 of its manifest,
    and how many files of the steps are left behind.

    The zip grows under `bundle.zip.part`, gets its name when it is whole, and `bundle.json` with
    the facts says so.

    Args:
        note: hears a sentence for every file that does not come along.
        lost: hears it where the file is a log or the results of a step: evidence, not baggage.
        after_the_steps: called when the steps are in, and the conditions are not.
        before_the_journal: called when everything is in but the journal; the last word.
        secrets: a file that holds one of them stays on the host.
        left_out: files and directories, relative to the run, that stay there too.

    Raises:
        OSError: the bundle cannot be written; a full disk, for the most part.
    """
    part, reserve = f"{run.bundle}.part", Reserve(run.reserve)
    note, lost = _masking(note, secrets), _masking(lost, secrets)
    with open(part, "wb", buffering=0) as raw:
        growing = _Growing(raw, reserve)
        file = io.BufferedWriter(growing, _BUFFER_BYTES)
        with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
            contents = _Contents(archive, run, note, lost, secrets, lambda: growing.is_full)
            there = sum(1 for _ in files_below(run, "steps", ()))
            found = records_first(files_below(run, "steps", left_out))
            tell_what_is_no_file(run, left_out, note)
            for path in fitting(run, found, reserve, note, lost):
                contents.add_within_bounds(path)
                file.flush()
            contents.tell_what_was_too_much()
            left_behind = there - contents.count_of_whole_or_secret
            after_the_steps()
            for path in files_below(run, "environment", left_out):
                contents.add(path)
            for name in MEMBERS:
                if name not in left_out and os.path.lexists(run.inside(name)):
                    contents.add(name)
            before_the_journal()
            contents.add("journal.jsonl")
            text = Manifest(run.run_id, tuple(contents.members)).to_json().encode("utf-8")
            archive.writestr(_info(manifest.FILE_NAME, 0o644, zipfile.ZIP_DEFLATED), text)
        file.flush()
    os.replace(part, run.bundle)
    facts = {
        "size": growing.size,
        # Tells a damage on this host's disk; against people the manifest is there.
        "crc32": growing.crc32,
        # The manifest vouches for every other member; hashing the zip once more would say no more.
        "manifest_sha256": hashlib.sha256(text).hexdigest(),
        "files": len(contents.members),
        # Of the steps, and for no secret's sake: a sweep would take the only copy.
        "left_behind": left_behind,
    }
    reserve.drop()
    with contextlib.suppress(OSError):
        # Without it a bundle that is made anew leaves out what nobody can look through again.
        write_atomically(run.bundle_manifest, text.decode("utf-8"))
    write_atomically(run.bundle_facts, json.dumps(facts))
    return facts


def _masking(tell: Callable[[str], None], secrets: Sequence[bytes]) -> Callable[[str], None]:
    """Say it without the values of secrets, which stand in names of files too."""

    def masked(text: str) -> None:
        for secret in secrets:
            text = text.replace(secret.decode("utf-8", "surrogateescape"), "***")
        tell(text)

    return masked


class _Growing(io.RawIOBase):
    """A file that zipfile cannot seek in, and the size and crc32 of what went through it.

    A follower may have sent on what was written, so a full disk takes nothing back: the reserve
    lets the zip be finished, with less in it.
    """

    def __init__(self, file: io.FileIO, reserve: Reserve) -> None:
        self._file = file
        self._reserve = reserve
        self.size = 0
        self.crc32 = 0
        self.is_full = False

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        while True:
            try:
                count = self._file.write(piece)
            except OSError as error:
                if not is_full(error) or not self._reserve.give(len(piece)):
                    raise
                self.is_full = True
                continue
            self.size += count
            self.crc32 = zlib.crc32(piece[:count], self.crc32)
            return count


class _Contents:
    """The members of a bundle while they are written."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        run: RunFolder,
        note: Callable[[str], None],
        lost: Callable[[str], None],
        secrets: Sequence[bytes],
        disk_is_full: Callable[[], bool],
    ) -> None:
        self.members: list[Member] = []
        self._archive = archive
        self._run = run
        self._note = note
        self._lost = lost
        self._secrets = secrets
        self._disk_is_full = disk_is_full
        self._bytes = 0
        self._secret_files = self._partial_files = 0
        self._too_much: list[int] = []
        self._places = Places()
        self._places.add(manifest.FILE_NAME)

    @property
    def count_of_whole_or_secret(self) -> int:
        """The files of which nothing is missing, or that must not come along."""
        return len(self.members) - self._partial_files + self._secret_files

    def add_within_bounds(self, name: str) -> None:
        """Add a file of a step, while the bundle has room for more than the journal."""
        size = os.lstat(self._run.inside(name)).st_size
        full = len(self.members) >= MAX_FILES - RESERVED_FILES
        if full or self._bytes + size > MAX_BYTES - RESERVED_BYTES:
            if is_record(name):
                self._tell(name, f"({size} bytes) is not in the bundle: it holds as much as it may")
            else:
                self._too_much.append(size)
        elif self._disk_is_full() and size > SMALL_BYTES:
            self._tell(name, "is not in the bundle: the disk of the host is full")
        else:
            self.add(name)

    def tell_what_was_too_much(self) -> None:
        if self._too_much:
            count, size = len(self._too_much), sum(self._too_much)
            files = "1 file ({} bytes) is" if count == 1 else f"{count} files ({{}} bytes) are"
            self._note(f"{files.format(size)} not in the bundle: it holds as much as it may")

    def add(self, name: str) -> None:
        """Add one file by its name in the run's directory, or tell why not."""
        path = self._run.inside(name)
        if any(secret in os.fsencode(name) for secret in self._secrets):
            self._tell(name, "bears the value of a secret in its name and is not in the bundle")
            self._secret_files += 1
            return
        try:
            if self._secrets and name != "plan.json" and holds_any(path, self._secrets):
                self._tell(name, "holds the value of a secret and is not in the bundle")
                self._secret_files += 1
                return
            source = open_plain(path)
        except OSError as error:
            self._tell(name, f"is not in the bundle: {error.strerror}")
            return
        with source:
            self._store(source, self._places.take(name))

    def _store(self, source: io.FileIO, name: str) -> None:
        """As many bytes as the file has now; one that goes on growing must not hold us up."""
        facts = os.fstat(source.fileno())
        mode = stat.S_IMODE(facts.st_mode)
        info = _info(name, mode, _method(source))
        info.file_size = facts.st_size
        digest, left = hashlib.sha256(), facts.st_size
        with self._archive.open(info, "w", force_zip64=facts.st_size > 1 << 30) as target:
            while left:
                piece = self._read(source, min(left, _PIECE_BYTES), name)
                if not piece:
                    break
                digest.update(piece)
                target.write(piece)
                left -= len(piece)
                if left > SMALL_BYTES and self._disk_is_full():
                    self._tell(name, "is in the bundle in part: the disk of the host is full")
                    break
        self._partial_files += left > 0
        size = facts.st_size - left
        self._bytes += size
        self.members.append(Member(name, size, digest.hexdigest(), mode))

    def _read(self, source: io.FileIO, count: int, name: str) -> bytes:
        try:
            return source.read(count) or b""
        except OSError as error:
            self._tell(name, f"is in the bundle in part: {error.strerror}")
            return b""

    def _tell(self, name: str, what: str) -> None:
        tell = self._lost if is_record(name) else self._note
        tell(f"`{manifest.portable_path(name)}` {what}")


def _info(name: str, mode: int, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _FIXED_TIME)
    info.compress_type = method
    info.external_attr = (stat.S_IFREG | mode) << 16
    # Level 1 shrinks logs nearly as well as level 6, four times as fast.
    info._compresslevel = 1  # type: ignore[attr-defined]
    return info


def _method(source: io.FileIO) -> int:
    sample = source.read(_SAMPLE_BYTES) or b""
    source.seek(0)
    if len(sample) < 64 or len(zlib.compress(sample, 1)) > 0.9 * len(sample):
        return zipfile.ZIP_STORED
    return zipfile.ZIP_DEFLATED
