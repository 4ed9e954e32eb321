"""The bundle's table of contents: path, size, sha256 and mode of every file in it.

It is the last member of the zip, `manifest.json`, and lists every other member. Paths have forward
slashes and are safe on every file system a bundle may be unpacked on; `path_problem` says why one
is not, and `Places` finds a safe one for a file of any name.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = 1
FILE_NAME = "manifest.json"

# More than this is not unpacked; whoever writes a bundle leaves the rest out, and says so.
MAX_FILES = 200_000
MAX_BYTES = 64 << 30

MAX_PATH_BYTES = 1000
MAX_NAME_BYTES = 255

# Windows opens a device, not a file, under these names, whatever the suffix.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul"] + [f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10)]
)
_UNPORTABLE = frozenset('<>"|?*')


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
        places = Places()
        places.add(FILE_NAME)
        for member in members:
            problem = path_problem(member.path) or places.problem(member.path)
            if problem:
                raise ValueError(f"the path {member.path!r} {problem}")
            places.add(member.path)
        return cls(run_id, members)


def _member(item: dict[str, Any]) -> Member:
    member = Member(item["path"], item["size"], item["sha256"], item["mode"])
    texts = isinstance(member.path, str) and isinstance(member.sha256, str)
    numbers = type(member.size) is int and type(member.mode) is int
    if not texts or not numbers or member.size < 0 or len(member.sha256) != 64:
        raise ValueError(f"damaged entry for {member.path!r}")
    return member


class Places:
    """The paths of one bundle, told apart no better than the least able file system does it.

    Names that differ in case alone, or in how an accent is composed, are one file on a Windows or
    macOS laptop.
    """

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def problem(self, path: str) -> str:
        """Why a path cannot be added; an empty string when it can."""
        *folders, whole = _prefixes(path)
        if whole in self._files:
            return "stands twice"
        if whole in self._folders or not self._files.isdisjoint(folders):
            return "is a file and a directory"
        return ""

    def add(self, path: str) -> None:
        *folders, whole = _prefixes(path)
        self._files.add(whole)
        self._folders.update(folders)

    def take(self, path: str) -> str:
        """Add a file of any name; returns its portable path, which nothing else has."""
        *folders, name = portable_path(path).split("/")
        place = ""
        for folder in folders:
            place = _first_free(f"{place}{folder}", self._files) + "/"
        place = _first_free(f"{place}{name}", self._files, self._folders)
        self.add(place)
        return place


def _first_free(path: str, *taken: set[str]) -> str:
    number, free = 1, path
    while any(_folded(free) in one for one in taken):
        number += 1
        free = f"{path}~{number}"
    return free


def _prefixes(path: str) -> list[str]:
    """`a`, `a/b`, `a/b/c` of `a/b/c`, folded."""
    parts = _folded(path).split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _folded(path: str) -> str:
    composed = unicodedata.normalize("NFC", path)
    return unicodedata.normalize("NFC", composed.casefold())


def path_problem(path: str) -> str:
    """Why a path must not be unpacked; an empty string for a good one."""
    raw = path.encode("utf-8", "surrogatepass")
    if not path or len(raw) > MAX_PATH_BYTES:
        return "is empty or too long"
    if path.startswith("/") or "\\" in path or ":" in path:
        return "is absolute or has a backslash or a colon"
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "has a control character"
    if any("\ud800" <= char <= "\udfff" or char in _UNPORTABLE for char in path):
        return "has a character that some file systems lack"
    for part in path.split("/"):
        problem = _part_problem(part)
        if problem:
            return problem
    return ""


def _part_problem(part: str) -> str:
    if part in ("", ".", ".."):
        return "has an empty part, `.` or `..`"
    if part.split(".")[0].strip().lower() in _DEVICES:
        return "names a device of Windows"
    if part[-1] in ". ":
        return "has a part that ends in a dot or a blank"
    if len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return "has a part that is too long"
    return ""


def portable_path(path: str) -> str:
    """A path for the bundle: as it is where every file system can hold it, else percent-encoded.

    What is too long then is cut, and ends in a hash of the whole.
    """
    parts = [part if not path_problem(part) else _portable_part(part) for part in path.split("/")]
    if len("/".join(parts).encode("utf-8")) <= MAX_PATH_BYTES:
        return "/".join(parts)
    *folders, name = parts
    kept: list[str] = []
    while len("/".join([*kept, folders[len(kept)]]).encode("utf-8")) <= MAX_PATH_BYTES // 2:
        kept.append(folders[len(kept)])
    return "/".join([*kept, f"~{_short_hash(path)}", name])


def _portable_part(part: str) -> str:
    raw = part.encode("utf-8", "surrogateescape")
    safe = "".join(
        chr(b) if 32 < b < 127 and chr(b) not in '%\\:*?"<>|/' else f"%{b:02X}" for b in raw
    )
    if safe.endswith(".") or not safe:
        safe = f"{safe[:-1]}%2E"
    if len(safe) > MAX_NAME_BYTES:
        safe = f"{safe[:200]}~{_short_hash(part)}"
    return safe if not path_problem(safe) else f"_{safe}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
