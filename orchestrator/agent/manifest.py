"""The bundle's table of contents: path, size, sha256 and mode of every file in it.

It is the last member of the zip, `manifest.json`, and lists every other member. Paths have forward
slashes and are safe on every file system a bundle may be unpacked on; `path_problem` says why one
is not.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = 1
FILE_NAME = "manifest.json"

MAX_PATH_BYTES = 1000

# Windows opens a device, not a file, under these names, whatever the suffix.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul"] + [f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10)]
)


@dataclass(frozen=True)
class Member:
    """One file of a bundle; `mode` is its permission bits, `sha256` of its content."""

    path: str
    size: int
    sha256: str
    mode: int


@dataclass(frozen=True)
class Manifest:
    """All files of a bundle, by path."""

    run_id: str
    members: tuple[Member, ...]
    schema: int = SCHEMA

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read a manifest back.

        Raises:
            ValueError: it is of another schema, damaged, or names a path that is unsafe or twice.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            if data["schema"] != SCHEMA:
                raise ValueError(f"manifest of schema {data['schema']!r}, not {SCHEMA}")
            members = tuple(_member(item) for item in data["members"])
            run_id = str(data["run_id"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a manifest: {error!r}") from error
        seen: set[str] = set()
        for member in members:
            problem = path_problem(member.path)
            if problem:
                raise ValueError(f"the path {member.path!r} {problem}")
            # Two names that differ in case alone are one file on a Windows or macOS laptop.
            if member.path.lower() in seen:
                raise ValueError(f"the path {member.path!r} stands twice")
            seen.add(member.path.lower())
        return cls(run_id, members)


def _member(item: dict[str, Any]) -> Member:
    member = Member(item["path"], item["size"], item["sha256"], item["mode"])
    numbers = isinstance(member.size, int) and isinstance(member.mode, int)
    if not numbers or member.size < 0 or len(member.sha256) != 64:
        raise ValueError(f"damaged entry for {member.path!r}")
    return member


def path_problem(path: str) -> str:
    """Why a path must not be unpacked; an empty string for a good one."""
    if not path or len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        return "is empty or too long"
    if path.startswith("/") or "\\" in path or ":" in path:
        return "is absolute or has a backslash or a colon"
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "has a control character"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return "has an empty part, `.` or `..`"
        if part.split(".")[0].lower() in _DEVICES:
            return "names a device of Windows"
        if part[-1] in ". ":
            return "has a part that ends in a dot or a blank"
    return ""


def portable_path(path: str) -> str:
    """A path for the bundle: as it is where every file system can hold it, else percent-encoded."""
    if not path_problem(path):
        return path
    return "/".join(_portable_part(part) for part in path.split("/"))


def _portable_part(part: str) -> str:
    raw = part.encode("utf-8", "surrogateescape")
    safe = "".join(
        chr(b) if 32 < b < 127 and chr(b) not in '%\\:*?"<>|' else f"%{b:02X}" for b in raw
    )
    safe = safe.strip(".") or f"%{ord('.'):02X}"
    return safe if not path_problem(safe) else f"_{safe}"
