"""artifacts/<run-id>/: one directory for each run, complete from the moment the run exists.

run.json           what the laptop knows (record.py)
plan.json          what was ordered
experiment.yaml    the file as it was
ledger.yaml        the predictions as they were sealed
journal.jsonl      the host's word, as far as it came
bundle.zip         what came home, verified
evidence/          the bundle, unpacked
.lock              while somebody works on it (hold.py)
verdict.json       the ledger against the results
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from orchestrator.errors import EvidenceError, InputError
from orchestrator.store.record import RunRecord
from orchestrator.store.unpack import Damaged, unpack

# 20260131-235959
_SECOND = 15
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


@dataclass(frozen=True)
class RunDir:
    """The places in a run's directory."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def record_file(self) -> Path:
        return self.path / "run.json"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def experiment(self) -> Path:
        return self.path / "experiment.yaml"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.yaml"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def bundle(self) -> Path:
        return self.path / "bundle.zip"

    @property
    def incoming(self) -> Path:
        """The bundle while it arrives; a broken link is resumed at its end."""
        return self.path / "bundle.zip.part"

    @property
    def evidence(self) -> Path:
        return self.path / "evidence"

    @property
    def verdict(self) -> Path:
        return self.path / "verdict.json"

    def read_record(self) -> RunRecord:
        """What run.json says.

        Raises:
            EvidenceError: the file is missing or damaged.
        """
        try:
            return RunRecord.model_validate_json(self.record_file.read_bytes())
        except OSError as error:
            raise EvidenceError(f"cannot read {self.record_file}: {error.strerror}") from error
        except ValidationError as error:
            count = error.error_count()
            wrong = "1 field is" if count == 1 else f"{count} fields are"
            raise EvidenceError(
                f"{self.record_file} is damaged: {wrong} wrong",
                fix=f"move {self.path} away, then orch fetch {self.run_id} --host <its host>",
            ) from error

    def write_record(self, record: RunRecord) -> None:
        text = record.model_dump_json(by_alias=True, indent=1)
        write_atomically(self.record_file, text + "\n")


def artifacts_dir(project: Path) -> Path:
    """Where the runs of a project land; `ORCH_ARTIFACTS` overrides it."""
    chosen = os.environ.get("ORCH_ARTIFACTS")
    return Path(chosen).expanduser() if chosen else project / "artifacts"


def create(artifacts: Path, run_id: str) -> RunDir:
    """A new directory for a run.

    Raises:
        EvidenceError: a run of that id is there already, or it is no id: a host may say anything.
        InputError: the directory cannot be made.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise EvidenceError(f"`{run_id}` is not a run id")
    path = artifacts / run_id
    if path.exists():
        fix = "" if (path / "run.json").exists() else f"remove {path}, which holds no run.json"
        raise EvidenceError(f"there is a run `{run_id}` already: {path}", fix=fix)
    try:
        if not artifacts.exists():
            artifacts.mkdir(parents=True)
            # Runs are evidence, not source: without this the next snapshot would send them all.
            (artifacts / ".gitignore").write_text("*\n", "utf-8")
        path.mkdir()
    except OSError as error:
        raise InputError(
            f"cannot make {path}: {error.strerror}",
            fix="mend that directory, or set ORCH_ARTIFACTS to another one",
        ) from error
    return RunDir(path)


def find(artifacts: Path, name: str) -> RunDir:
    """The run of that id, of that unambiguous beginning, at that path, or `latest`.

    A run that was put away without its unpacked evidence gets it back from its bundle.

    Raises:
        InputError: no run, or several, answer to the name.
        EvidenceError: its bundle cannot be unpacked.
    """
    found = _named(artifacts, name)
    unpack_again(found)
    return found


def unpack_again(run: RunDir) -> None:
    """Give a run back the evidence that only its bundle still holds.

    Raises:
        EvidenceError: its bundle cannot be unpacked.
    """
    if run.bundle.exists() and not run.evidence.exists():
        announced = run.read_record().bundle
        try:
            unpack(run.bundle, run.evidence, announced.manifest_sha256 if announced else "")
        except Damaged as error:
            error.fix = f"remove {run.bundle}, then orch fetch {run.run_id}"
            raise


def _named(artifacts: Path, name: str) -> RunDir:
    direct = Path(name)
    if (direct / "run.json").is_file():
        return RunDir(direct.resolve())
    known = run_dirs(artifacts)
    if name == "latest" and known:
        return known[-1]
    matching = [run for run in known if run.run_id == name] or [
        run for run in known if run.run_id.startswith(name)
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        ids = ", ".join(f"`{run.run_id}`" for run in matching[:5])
        raise InputError(f"`{name}` could be {ids}", expected="more of the run id")
    raise InputError(
        f"no run `{name}` in {artifacts}", expected="a run id from `orch ls`, or `latest`"
    )


def run_dirs(artifacts: Path) -> list[RunDir]:
    """All runs, oldest first: run ids begin with the second in which they were made."""
    if not artifacts.is_dir():
        return []
    found = [RunDir(path) for path in artifacts.iterdir() if (path / "run.json").is_file()]
    seconds = Counter(run.run_id[:_SECOND] for run in found)
    return sorted(
        found,
        key=lambda run: (
            run.run_id[:_SECOND],
            _created_at(run) if seconds[run.run_id[:_SECOND]] > 1 else "",
            run.run_id,
        ),
    )


def _created_at(run: RunDir) -> str:
    """To the millisecond; empty when the record does not say, so that it is older than others."""
    try:
        return run.read_record().created_at
    except EvidenceError:
        return ""


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> object:
    """A JSON document of a run directory.

    Raises:
        EvidenceError: the file is missing or damaged.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise EvidenceError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{path} is damaged: {error}") from error
