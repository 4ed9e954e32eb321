"""Results of unchanged files, kept between runs and never trusted beyond the bytes they belong to.

One JSON file holds all results of one identity: the linter's own files, the configuration, the
active rules and the Python version. A file whose modification time and size are unchanged is not
read again, unless it was written so shortly before the last run that its clock could not tell.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from preflight.checking import FileResult
from preflight.config import Config
from preflight.wire import (
    finding_from_json,
    finding_to_json,
    suppression_from_json,
    suppression_to_json,
)

FOLDER = ".preflight_cache"
RACY_NS = 2_000_000_000


def identity(config: Config, active: Iterable[str]) -> str:
    """A hash of everything but the file's bytes that a result depends on."""
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parent
    for parent, _, names in sorted(os.walk(package)):
        for name in sorted(names):
            if name.endswith(".py"):
                facts = os.stat(os.path.join(parent, name))
                digest.update(f"{parent}/{name}:{facts.st_size}:{facts.st_mtime_ns}\n".encode())
    digest.update(repr((config, sorted(active), sys.version_info[:3])).encode())
    return digest.hexdigest()[:32]


class Cache:
    """Results by path. `load` and `store` are the only effects."""

    def __init__(self, root: Path, key: str) -> None:
        self._file = root / FOLDER / f"{key}.json"
        self._entries: dict[str, dict[str, Any]] = {}
        self._changed = False

    def load(self) -> None:
        """Read what earlier runs left; a damaged cache file counts as none."""
        try:
            self._entries = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            self._entries = {}

    def fresh(self, path: str, facts: os.stat_result) -> FileResult | None:
        """The result for a file with these facts, when they prove the bytes unchanged."""
        entry = self._entries.get(path)
        if (
            entry is None
            or entry["mtime_ns"] != facts.st_mtime_ns
            or entry["size"] != facts.st_size
        ):
            return None
        if entry["checked_ns"] - facts.st_mtime_ns < RACY_NS:
            return None
        return _result(path, entry)

    def same_bytes(
        self, path: str, digest: str, facts: os.stat_result, now_ns: int
    ) -> FileResult | None:
        """The result for a file whose bytes hash to `digest`; its times are brought up to date."""
        entry = self._entries.get(path)
        if entry is None or entry["sha256"] != digest:
            return None
        entry |= {"mtime_ns": facts.st_mtime_ns, "size": facts.st_size, "checked_ns": now_ns}
        self._changed = True
        return _result(path, entry)

    def put(self, result: FileResult, digest: str, facts: os.stat_result, now_ns: int) -> None:
        self._entries[result.path] = {
            "mtime_ns": facts.st_mtime_ns,
            "size": facts.st_size,
            "checked_ns": now_ns,
            "sha256": digest,
            "findings": [finding_to_json(finding) for finding in result.findings],
            "suppressions": [suppression_to_json(item) for item in result.suppressions],
            "skipped": result.skipped_functions,
        }
        self._changed = True

    def store(self) -> None:
        """Write to a temporary name and rename, so that a reader never sees half a cache."""
        if not self._changed:
            return
        try:
            self._file.parent.mkdir(exist_ok=True)
            ignore = self._file.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", "utf-8")
            handle, name = tempfile.mkstemp(dir=self._file.parent, suffix=".tmp")
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(self._entries, stream, separators=(",", ":"))
            Path(name).replace(self._file)
            self._drop_old()
        except OSError:
            # A read-only tree is linted without a cache; the result is the same, only slower.
            return

    def _drop_old(self, keep: int = 4) -> None:
        files = sorted(self._file.parent.glob("*.json"), key=lambda f: f.stat().st_mtime_ns)
        for old in files[:-keep]:
            old.unlink(missing_ok=True)


def _result(path: str, entry: dict[str, Any]) -> FileResult:
    return FileResult(
        path=path,
        findings=tuple(finding_from_json(item) for item in entry["findings"]),
        suppressions=tuple(suppression_from_json(item) for item in entry["suppressions"]),
        skipped_functions=entry["skipped"],
    )
