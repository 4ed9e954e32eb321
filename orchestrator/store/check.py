"""`orch verify`: is what lies here still exactly what came home, and does it fit together?"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agent import manifest
from orchestrator.agent.manifest import Manifest
from orchestrator.errors import EvidenceError
from orchestrator.store import history, unpack
from orchestrator.store.record import RunRecord
from orchestrator.store.rundir import RunDir, read_json


@dataclass(frozen=True)
class CheckedBundle:
    """A bundle in which every member is what the manifest says."""

    run_id: str
    files: int


def bundle(path: Path) -> CheckedBundle:
    """Check a bundle alone, without unpacking it to disk.

    Raises:
        EvidenceError: naming the first thing that is wrong.
    """
    contents = unpack.check_members(path)
    return CheckedBundle(contents.run_id, len(contents.members))


def run(folder: RunDir) -> Iterator[str]:
    """Check a run's directory; yields a line for each thing that is right.

    Raises:
        EvidenceError: naming the first thing that is wrong.
    """
    record = folder.read_record()
    if record.state != "home" or record.bundle is None:
        raise EvidenceError(f"{record.run_id} is not home yet", fix=f"orch fetch {record.run_id}")
    yield _bundle_line(folder, record)
    yield _evidence_line(folder)
    yield _tree_line(folder, record)
    yield _plan_line(folder, record)
    yield _ledger_line(folder, record)


def _bundle_line(folder: RunDir, record: RunRecord) -> str:
    assert record.bundle is not None
    if not folder.bundle.exists():
        return "bundle.zip: removed since; the unpacked evidence is checked by its manifest"
    contents = unpack.check_members(folder.bundle, record.bundle.manifest_sha256)
    return f"bundle.zip: {len(contents.members)} files, as the host announced them"


def _evidence_line(folder: RunDir) -> str:
    try:
        text = (folder.evidence / manifest.FILE_NAME).read_text("utf-8")
        contents = Manifest.from_json(text)
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{folder.evidence} has no usable manifest: {error}") from error
    for member in contents.members:
        path = folder.evidence / member.path
        if path.is_symlink() or not path.is_file():
            raise EvidenceError(f"{path} is missing")
        if unpack.file_sha256(path) != member.sha256:
            raise EvidenceError(f"{path} was changed after it came home")
    _refuse_strangers(folder.evidence, contents)
    return f"evidence/: {len(contents.members)} files, every hash is right, and no other file"


def _refuse_strangers(evidence: Path, contents: Manifest) -> None:
    known = {member.path for member in contents.members} | {manifest.FILE_NAME}
    for top, _, names in os.walk(evidence):
        for name in names:
            path = (Path(top) / name).relative_to(evidence).as_posix()
            if path not in known:
                raise EvidenceError(f"{evidence / path} did not come with the bundle")


def _tree_line(folder: RunDir, record: RunRecord) -> str:
    said = history.read(folder.evidence / "journal.jsonl").started
    host = str(said["tree"]) if said else ""
    if not record.tree.local == record.tree.host == host:
        raise EvidenceError(
            f"the tree is {record.tree.local} here, {host or 'unknown'} in the host's journal"
        )
    return f"tree: {host[:12]} on both sides"


def _plan_line(folder: RunDir, record: RunRecord) -> str:
    text = folder.plan.read_bytes()
    if record.plan_sha256 and hashlib.sha256(text).hexdigest() != record.plan_sha256:
        raise EvidenceError(f"{folder.plan} was changed after it was ordered")
    if json.loads(text) != read_json(folder.evidence / "plan.json"):
        raise EvidenceError("the plan the host carried out is not the one that was ordered")
    return "plan: carried out as ordered"


def _ledger_line(folder: RunDir, record: RunRecord) -> str:
    if record.ledger is None:
        return "ledger: none"
    found = unpack.file_sha256(folder.ledger)
    if found != record.ledger.sha256:
        raise EvidenceError(f"{folder.ledger} was changed after it was sealed")
    proof = "committed before the run" if record.ledger.committed else "not committed in git"
    return f"ledger: as sealed before the first step ({proof})"
