"""Unpacking what an untrusted machine sent: no links, no way out, bounded, every hash checked."""

from __future__ import annotations

import errno
import hashlib
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from orchestrator.agent import manifest
from orchestrator.agent.manifest import MAX_BYTES, MAX_FILES, Manifest, Member
from orchestrator.errors import EvidenceError

MAX_MANIFEST_BYTES = 256 << 20
# Deflate shrinks to a 1032nd at best; whoever claims more lies about a size.
_MAX_RATIO = 1100
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
_PIECE_BYTES = 1 << 20
# What the standard library raises for headers and contents that are broken.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(ValueError, RuntimeError, OverflowError),
)


class Damaged(EvidenceError):
    """The bundle is not what it must be: it is of no use, and what is at the host may be."""


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def unpack(bundle: Path, target: Path, manifest_sha256: str = "") -> Manifest:
    """Unpack a bundle into a new directory that appears only when everything in it is right.

    Args:
        manifest_sha256: what the host says of its manifest; not checked when empty.

    Raises:
        Damaged: a member is unsafe, too large, damaged, missing or not in the manifest.
        EvidenceError: there is no room for it, or something is there already.
    """
    if target.exists():
        raise EvidenceError(f"{target} is there already")
    with _opened(bundle) as archive:
        contents = _manifest_of(archive, bundle, manifest_sha256)
        _check_room(contents, target)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            for member in contents.members:
                _extract(archive, member, fresh)
            (fresh / manifest.FILE_NAME).write_bytes(archive.read(manifest.FILE_NAME))
            fresh.chmod(0o755)
            fresh.replace(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return contents


def check_members(bundle: Path, manifest_sha256: str = "") -> Manifest:
    """Check every member of a bundle against its manifest, writing nothing.

    Raises:
        Damaged: a member is unsafe, too large, damaged, missing or not in the manifest.
    """
    with _opened(bundle) as archive:
        contents = _manifest_of(archive, bundle, manifest_sha256)
        for member in contents.members:
            _copy_checked(archive, member, None)
    return contents


def manifest_text(bundle: Path) -> bytes:
    """The manifest of a bundle that was checked before."""
    with _opened(bundle) as archive:
        return archive.read(manifest.FILE_NAME)


@contextmanager
def _opened(bundle: Path) -> Iterator[zipfile.ZipFile]:
    """A zip, any trouble with which is the bundle's."""
    try:
        with zipfile.ZipFile(bundle) as archive:
            yield archive
    except OSError as error:
        # A place before the beginning, by the zip's own word.
        kind = Damaged if error.errno == errno.EINVAL else EvidenceError
        raise kind(f"{bundle} cannot be read or unpacked: {error}") from error
    except _DAMAGE as error:
        raise Damaged(f"{bundle} is damaged: {error}") from error


def _manifest_of(archive: zipfile.ZipFile, bundle: Path, expected_sha256: str) -> Manifest:
    infos = {info.filename: info for info in archive.infolist()}
    _check_bounds(archive, bundle)
    info = infos.pop(manifest.FILE_NAME, None)
    if info is None:
        raise Damaged(f"{bundle} has no {manifest.FILE_NAME}")
    if info.file_size > MAX_MANIFEST_BYTES:
        raise Damaged(f"the manifest of {bundle} is too large")
    text = archive.read(info)
    found = hashlib.sha256(text).hexdigest()
    if expected_sha256 and found != expected_sha256:
        raise Damaged(
            f"the manifest of {bundle} is {found[:12]}, the host's is {expected_sha256[:12]}",
            expected="equal sha256",
        )
    try:
        contents = Manifest.from_json(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Damaged(f"the manifest of {bundle} is not usable: {error}") from error
    listed = {member.path for member in contents.members}
    if listed != set(infos):
        strange = sorted(listed ^ set(infos))
        raise Damaged(f"{bundle} and its manifest differ in {strange[:5]}")
    return contents


def _check_bounds(archive: zipfile.ZipFile, bundle: Path) -> None:
    infos = archive.infolist()
    if len({info.filename for info in infos}) != len(infos):
        raise Damaged(f"{bundle} holds a name twice")
    if len(infos) > MAX_FILES:
        raise Damaged(f"{bundle} holds {len(infos)} files", expected=f"at most {MAX_FILES}")
    total = sum(info.file_size for info in infos)
    if total > MAX_BYTES:
        raise Damaged(f"{bundle} unpacks to {total} bytes", expected=f"at most {MAX_BYTES}")
    if sum(info.compress_size for info in infos) > bundle.stat().st_size:
        raise Damaged(f"members of {bundle} share their bytes")
    for info in infos:
        _check_header(info, bundle)


def _check_header(info: zipfile.ZipInfo, bundle: Path) -> None:
    where = f"`{info.filename}` in {bundle}"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        raise Damaged(f"{where} is not a plain file")
    if info.compress_type not in _METHODS or info.flag_bits & _ENCRYPTED:
        raise Damaged(f"{where} is packed in a way that is not ours")
    if info.file_size > _MAX_RATIO * max(info.compress_size, 1024):
        raise Damaged(f"{where} is packed beyond belief")


def _check_room(contents: Manifest, target: Path) -> None:
    needed = sum(member.size for member in contents.members)
    free = _free_bytes(target.parent)
    if needed > free:
        raise EvidenceError(
            f"{target} needs {needed} bytes, of which {free} bytes are free",
            fix="free some disk space, then fetch the run again",
        )


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _extract(archive: zipfile.ZipFile, member: Member, top: Path) -> None:
    place = top.joinpath(*member.path.split("/"))
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb", buffering=0) as target:
        _copy_checked(archive, member, target)
    if member.mode & 0o111:
        place.chmod(0o755)


def _copy_checked(archive: zipfile.ZipFile, member: Member, target: IO[bytes] | None) -> None:
    """Read one member; never more bytes than the manifest promised."""
    digest = hashlib.sha256()
    left = member.size
    with archive.open(member.path) as source:
        while piece := source.read(_PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                break
            digest.update(piece)
            if target is not None:
                _write_whole(target, piece)
    if left != 0 or digest.hexdigest() != member.sha256:
        raise Damaged(f"`{member.path}` is not what the manifest says")


def _write_whole(target: IO[bytes], piece: bytes) -> None:
    """All of it: where a disk or a limit ends within it, the next write says so."""
    left = memoryview(piece)
    while left:
        left = left[target.write(left) :]
