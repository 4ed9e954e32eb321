"""Unpacking what an untrusted machine sent: no links, no way out, bounded, every hash checked."""

from __future__ import annotations

import hashlib
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO

from orchestrator.agent import manifest
from orchestrator.agent.manifest import Manifest, Member
from orchestrator.errors import EvidenceError

MAX_FILES = 200_000
MAX_BYTES = 64 << 30
# Logs of one repeated line shrink a thousandfold and are honest; more than that is a bomb.
MAX_RATIO = 2000
MAX_MANIFEST_BYTES = 256 << 20
_PIECE_BYTES = 1 << 20


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
        EvidenceError: a member is unsafe, too large, damaged, missing or not in the manifest.
    """
    if target.exists():
        raise EvidenceError(f"{target} is there already")
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        with zipfile.ZipFile(bundle) as archive:
            contents = _manifest_of(archive, bundle, manifest_sha256)
            for member in contents.members:
                _extract(archive, member, fresh)
            (fresh / manifest.FILE_NAME).write_bytes(archive.read(manifest.FILE_NAME))
        fresh.chmod(0o755)
        fresh.replace(target)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise EvidenceError(f"{bundle} is damaged: {error}") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return contents


def check_members(bundle: Path, manifest_sha256: str = "") -> Manifest:
    """Check every member of a bundle against its manifest, writing nothing.

    Raises:
        EvidenceError: a member is unsafe, too large, damaged, missing or not in the manifest.
    """
    try:
        with zipfile.ZipFile(bundle) as archive:
            contents = _manifest_of(archive, bundle, manifest_sha256)
            for member in contents.members:
                _copy_checked(archive, member, None)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError) as error:
        raise EvidenceError(f"{bundle} is damaged: {error}") from error
    return contents


def _manifest_of(archive: zipfile.ZipFile, bundle: Path, expected_sha256: str) -> Manifest:
    infos = {info.filename: info for info in archive.infolist()}
    _check_bounds(archive, bundle)
    info = infos.pop(manifest.FILE_NAME, None)
    if info is None:
        raise EvidenceError(f"{bundle} has no {manifest.FILE_NAME}")
    if info.file_size > MAX_MANIFEST_BYTES:
        raise EvidenceError(f"the manifest of {bundle} is too large")
    text = archive.read(info)
    found = hashlib.sha256(text).hexdigest()
    if expected_sha256 and found != expected_sha256:
        raise EvidenceError(
            f"the manifest of {bundle} is {found[:12]}, the host's is {expected_sha256[:12]}",
            expected="equal sha256",
        )
    try:
        contents = Manifest.from_json(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"the manifest of {bundle} is not usable: {error}") from error
    listed = {member.path for member in contents.members}
    if listed != set(infos):
        strange = sorted(listed ^ set(infos))
        raise EvidenceError(f"{bundle} and its manifest differ in {strange[:5]}")
    return contents


def _check_bounds(archive: zipfile.ZipFile, bundle: Path) -> None:
    infos = archive.infolist()
    if len({info.filename for info in infos}) != len(infos):
        raise EvidenceError(f"{bundle} holds a name twice")
    if len(infos) > MAX_FILES:
        raise EvidenceError(f"{bundle} holds {len(infos)} files", expected=f"at most {MAX_FILES}")
    total = sum(info.file_size for info in infos)
    if total > MAX_BYTES:
        raise EvidenceError(f"{bundle} unpacks to {total} bytes", expected=f"at most {MAX_BYTES}")
    for info in infos:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise EvidenceError(f"`{info.filename}` in {bundle} is not a plain file")
        if info.file_size > MAX_RATIO * max(info.compress_size, 1024):
            raise EvidenceError(f"`{info.filename}` in {bundle} is packed beyond belief")


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
                target.write(piece)
    if left != 0 or digest.hexdigest() != member.sha256:
        raise EvidenceError(f"`{member.path}` is not what the manifest says")
