"""Host keys that somebody has vouched for: known_hosts files, read and appended to.

Source of the format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". We read it ourselves because a refusal
must name the file and the line, and because paramiko ignores markers and aliases.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 22


@dataclass(frozen=True)
class KnownKey:
    """One line: for which names, which key, and where it stands."""

    marker: str
    names: str
    kind: str
    key: bytes
    file: Path
    line: int

    def is_for(self, name: str) -> bool:
        """Whether the line's patterns cover a name as `host_name` makes it."""
        matched = False
        for pattern in self.names.split(","):
            if pattern.startswith("|1|"):
                matched = matched or _hash_matches(pattern, name)
            elif pattern.startswith("!"):
                if fnmatch.fnmatchcase(name, _glob(pattern[1:])):
                    return False
            elif fnmatch.fnmatchcase(name.lower(), _glob(pattern.lower())):
                matched = True
        return matched


def host_name(host: str, port: int) -> str:
    """How known_hosts calls a host: bare on port 22, `[host]:port` elsewhere."""
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def fingerprint(key: bytes) -> str:
    """`SHA256:...` as ssh-keygen prints it."""
    digest = hashlib.sha256(key).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def read(files: Iterable[Path]) -> list[KnownKey]:
    """All usable lines of the files that exist."""
    found = []
    for path in files:
        try:
            text = path.read_text("utf-8", "replace")
        except FileNotFoundError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            known = _parse(line, path, number)
            if known is not None:
                found.append(known)
    return found


def keys_for(name: str, known: Sequence[KnownKey]) -> list[KnownKey]:
    """Plain keys of a host; certificate authorities are left to the openssh carrier."""
    return [one for one in known if one.marker == "" and one.is_for(name)]


def revoked(key: bytes, known: Sequence[KnownKey]) -> KnownKey | None:
    """The line that revokes a key, whatever host it is for."""
    return next((one for one in known if one.marker == "@revoked" and one.key == key), None)


def append(path: Path, name: str, kind: str, key: bytes) -> None:
    """Vouch for a key: one line at the end of a file that only its owner may change."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    encoded = base64.b64encode(key).decode("ascii")
    existing = path.read_bytes() if path.exists() else b""
    separator = "" if existing in (b"",) or existing.endswith(b"\n") else "\n"
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(f"{separator}{name} {kind} {encoded}\n")
    if not existing:
        path.chmod(0o600)


def _parse(line: str, path: Path, number: int) -> KnownKey | None:
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3:
        return None
    try:
        key = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None
    return KnownKey(marker, words[0], words[1], key, path, number)


def _hash_matches(pattern: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in pattern[3:].split("|"))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode("utf-8"), "sha1").digest(), digest)


def _glob(pattern: str) -> str:
    """OpenSSH knows `*` and `?` only; square brackets stand for themselves."""
    return pattern.replace("[", "[[]")
