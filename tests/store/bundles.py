"""Bundles made by hand: honest ones, and every kind of hostile one."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUN_ID = "20260101-000000-exp-aaaa"


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@dataclass
class Zip:
    """What goes into a zip, member by member, and what its manifest claims about them."""

    members: list[tuple[zipfile.ZipInfo, bytes]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    run_id: str = RUN_ID

    def add(
        self,
        path: str,
        body: bytes,
        *,
        claim: bool = True,
        kind: int = stat.S_IFREG,
        mode: int = 0o644,
        method: int = zipfile.ZIP_DEFLATED,
        **lies: Any,
    ) -> Zip:
        info = zipfile.ZipInfo(path)
        info.filename = path
        info.external_attr = (kind | mode) << 16
        info.compress_type = method
        self.members.append((info, body))
        if claim:
            truth = {"path": path, "size": len(body), "sha256": sha256(body), "mode": mode}
            self.claims.append({**truth, **lies})
        return self

    def claim(self, path: str, body: bytes = b"") -> Zip:
        """Name a member that is not there."""
        self.claims.append({"path": path, "size": len(body), "sha256": sha256(body), "mode": 0o644})
        return self

    def write(self, path: Path, *, manifest: bytes | None = None) -> Path:
        text = manifest if manifest is not None else self.manifest()
        with zipfile.ZipFile(path, "w") as archive:
            for info, body in self.members:
                archive.writestr(info, body)
            archive.writestr("manifest.json", text, zipfile.ZIP_DEFLATED)
        return path

    def manifest(self) -> bytes:
        document = {"schema": 1, "run_id": self.run_id, "members": self.claims}
        return json.dumps(document).encode("utf-8")


def honest(extra: Iterable[tuple[str, bytes]] = ()) -> Zip:
    made = Zip()
    for path, body in (("steps/a/log", b"hello\n" * 100), ("plan.json", b"{}"), *extra):
        made.add(path, body)
    return made
