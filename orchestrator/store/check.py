"""`orch verify`: is what lies here still exactly what came home, and does it fit together?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agent import manifest
from orchestrator.agent.manifest import Manifest
from orchestrator.errors import EvidenceError
from orchestrator.store import history, unpack
from orchestrator.store.history import History
from orchestrator.store.record import Bundle, RunRecord
from orchestrator.store.rundir import RunDir, read_json

_RESULTS = "results.jsonl"
_READ = frozenset({"journal.jsonl", "environment.before.json", "environment.after.json"})


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
    yield _bundle_line(folder, record.bundle)
    yield _evidence_line(folder, record)
    told = history.read(folder.evidence / "journal.jsonl")
    yield _tree_line(told, record)
    yield _journal_line(told, record)
    yield _plan_line(folder, record)
    yield _ledger_line(folder, record)


def present(folder: RunDir) -> None:
    """Refuse a run whose evidence was removed: an empty one reads like a run that never began.

    Raises:
        EvidenceError: the journal is not here.
    """
    if not (folder.evidence / "journal.jsonl").is_file():
        raise EvidenceError(
            f"the evidence of {folder.run_id} is missing: {folder.evidence} holds no journal",
            fix=_restore(folder),
        )


def what_is_read(folder: RunDir, record: RunRecord) -> None:
    """Check the files that a verdict is made of, and no others: journal, snapshots, results.

    Raises:
        EvidenceError: one of them is missing, was changed, or did not come home.
    """
    present(folder)
    contents = _announced_contents(folder, record)
    judged = {m.path: m.sha256 for m in contents.members if _is_read(m.path)}
    for name, sha256 in judged.items():
        path = folder.evidence / name
        if not path.is_file():
            raise EvidenceError(f"{path} is missing", fix=_restore(folder))
        if _sha256(path) != sha256:
            raise EvidenceError(f"{path} was changed after it came home", fix=_restore(folder))
    for path in folder.evidence.glob("steps/**/" + _RESULTS):
        if path.relative_to(folder.evidence).as_posix() not in judged:
            raise EvidenceError(f"{path} did not come with the bundle", fix=_restore(folder))


def _announced_contents(folder: RunDir, record: RunRecord) -> Manifest:
    """The manifest beside the files, which must be the one that the host announced."""
    path = folder.evidence / manifest.FILE_NAME
    if (
        record.bundle is not None
        and path.is_file()
        and _sha256(path) != (record.bundle.manifest_sha256)
    ):
        raise EvidenceError(f"{path} was changed after it came home", fix=_restore(folder))
    return _contents(folder)


def _is_read(path: str) -> bool:
    return path in _READ or (path.startswith("steps/") and path.endswith("/" + _RESULTS))


def _restore(folder: RunDir) -> str:
    if folder.bundle.exists():
        return f"remove {folder.evidence}: it is unpacked again from bundle.zip"
    return f"orch fetch {folder.run_id}"


def _bundle_line(folder: RunDir, announced: Bundle) -> str:
    if not folder.bundle.exists():
        return "bundle.zip: removed since; the unpacked evidence is checked by its manifest"
    contents = unpack.check_members(folder.bundle, announced.manifest_sha256)
    size = folder.bundle.stat().st_size
    if size != announced.size:
        raise EvidenceError(f"{folder.bundle} has {size} bytes, run.json says {announced.size}")
    return f"bundle.zip: {len(contents.members)} files, as the host announced them"


def unpacked(folder: RunDir, manifest_sha256: str) -> None:
    """Check that the unpacked evidence is, file by file, what the host announced.

    Raises:
        EvidenceError: naming the first thing that is not.
    """
    path = folder.evidence / manifest.FILE_NAME
    if _sha256(path) != manifest_sha256:
        raise EvidenceError(f"{path} is not the manifest that the host announced")
    _check_files(folder, _contents(folder))


def _evidence_line(folder: RunDir, record: RunRecord) -> str:
    contents = _contents(folder)
    if contents.run_id != record.run_id:
        raise EvidenceError(
            f"{folder.evidence} is the bundle of {contents.run_id}, not of {record.run_id}"
        )
    _check_files(folder, contents)
    return f"evidence/: {len(contents.members)} files, every hash is right, and no other file"


def _check_files(folder: RunDir, contents: Manifest) -> None:
    _refuse_strangers(folder.evidence, contents)
    for member in contents.members:
        path = folder.evidence / member.path
        if not path.is_file():
            raise EvidenceError(f"{path} is missing")
        if _sha256(path) != member.sha256:
            raise EvidenceError(f"{path} was changed after it came home")


def _contents(folder: RunDir) -> Manifest:
    """The manifest beside the files; while the zip is there, it must be the zip's own."""
    path = folder.evidence / manifest.FILE_NAME
    try:
        text = path.read_bytes()
        contents = Manifest.from_json(text.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"{folder.evidence} has no usable manifest: {error}") from error
    if folder.bundle.exists() and text != unpack.manifest_text(folder.bundle):
        raise EvidenceError(f"{path} is not the manifest of {folder.bundle.name}")
    return contents


def _refuse_strangers(evidence: Path, contents: Manifest) -> None:
    known = {member.path for member in contents.members} | {manifest.FILE_NAME}
    for top, folders, names in os.walk(evidence):
        for name in (*folders, *names):
            path = Path(top, name)
            if path.is_symlink():
                raise EvidenceError(f"{path} is a link, which no bundle holds")
            if name in names and path.relative_to(evidence).as_posix() not in known:
                raise EvidenceError(f"{path} did not come with the bundle")


def _tree_line(told: History, record: RunRecord) -> str:
    host = told.tree
    if not record.tree.local == record.tree.host == host:
        raise EvidenceError(
            f"the tree is {record.tree.local} here, {host or 'unknown'} in the host's journal"
        )
    return f"tree: {host[:12]} on both sides"


def _journal_line(told: History, record: RunRecord) -> str:
    if record.counts != told.counts:
        raise EvidenceError(
            f"run.json counts {_shown(record.counts)}, the host's journal {_shown(told.counts)}"
        )
    return f"journal: {_shown(told.counts)}, as run.json says"


def _plan_line(folder: RunDir, record: RunRecord) -> str:
    ordered = read_json(folder.plan)
    if record.plan_sha256 and _sha256(folder.plan) != record.plan_sha256:
        raise EvidenceError(f"{folder.plan} was changed after it was ordered")
    if ordered != read_json(folder.evidence / "plan.json"):
        raise EvidenceError("the plan the host carried out is not the one that was ordered")
    return "plan: carried out as ordered"


def _ledger_line(folder: RunDir, record: RunRecord) -> str:
    if record.ledger is None:
        return "ledger: none"
    if _sha256(folder.ledger) != record.ledger.sha256:
        raise EvidenceError(f"{folder.ledger} was changed after it was sealed")
    proof = "committed before the run" if record.ledger.committed else "not committed in git"
    return f"ledger: as sealed before the first step ({proof})"


def _sha256(path: Path) -> str:
    try:
        return unpack.file_sha256(path)
    except OSError as error:
        raise EvidenceError(f"cannot read {path}: {error.strerror}") from error


def _shown(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "no job"
