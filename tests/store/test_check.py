"""`orch verify`: an honest run passes, and no single thing can be tampered with unseen."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import EvidenceError
from orchestrator.store import check, rundir, unpack
from orchestrator.store.record import Bundle, RunRecord, Sealed, Tree
from orchestrator.store.rundir import RunDir
from tests.store.bundles import RUN_ID, Zip, honest, sha256

TREE = "a" * 40
PLAN = json.dumps({"run_id": RUN_ID, "tree": TREE, "jobs": []})
LEDGER = "ledger: exp\nentries: []\n"
EVENTS = [
    {"n": 0, "event": "run_started", "run_id": RUN_ID, "tree": TREE},
    {
        "n": 1,
        "event": "step_ended",
        "id": "a",
        "step": "a",
        "round": 0,
        "folder": "a",
        "point": {},
        "state": "passed",
        "reason": "",
        "duration_s": 1.0,
        "tail": [],
    },
    {"n": 2, "event": "run_ended", "counts": {"passed": 1}},
]


def bundle(*, plan: str = PLAN, events: list[dict[str, Any]] = EVENTS, run_id: str = RUN_ID) -> Zip:
    journal = "".join(json.dumps(event) + "\n" for event in events)
    made = Zip(run_id=run_id).add("plan.json", plan.encode())
    made = made.add("journal.jsonl", journal.encode()).add("steps/a/log", b"hello\n")
    return made.add("steps/a/results.jsonl", b"")


def home(artifacts: Path, content: Zip) -> RunDir:
    """A run that has come home, as `orch run` leaves it."""
    folder = rundir.create(artifacts, RUN_ID)
    rundir.write_atomically(folder.plan, PLAN)
    rundir.write_atomically(folder.ledger, LEDGER)
    content.write(folder.bundle)
    unpack.unpack(folder.bundle, folder.evidence)
    raw = folder.bundle.read_bytes()
    folder.write_record(
        RunRecord(
            run_id=RUN_ID,
            experiment="exp",
            experiment_file="exp.yaml",
            host="local",
            carrier="local",
            created_at="2026-01-01T00:00:00.000Z",
            orch_version="0.1.0",
            state="home",
            tree=Tree(local=TREE, host=TREE),
            ledger=Sealed(file="exp.ledger.yaml", sha256=sha256(LEDGER.encode()), committed=True),
            plan_sha256=sha256(PLAN.encode()),
            bundle=Bundle(size=len(raw), manifest_sha256=sha256(content.manifest()), files=3),
            counts={"passed": 1},
        )
    )
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return home(tmp_path / "artifacts", bundle())


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def rerecord(run: RunDir, **changes: Any) -> None:
    run.write_record(run.read_record().model_copy(update=changes))


def forge_with_its_manifest(run: RunDir) -> None:
    """Change a file and the manifest beside it, so that they agree with each other."""
    log, manifest = run.evidence / "steps/a/log", run.evidence / "manifest.json"
    old = sha256(log.read_bytes())
    log.write_bytes(b"HELLO\n")
    manifest.write_text(manifest.read_text("utf-8").replace(old, sha256(b"HELLO\n")), "utf-8")


def replace_by_a_link(path: Path) -> None:
    moved = path.with_name("elsewhere")
    shutil.move(path, path.parent.parent.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent.parent.parent / "elsewhere")
    assert not moved.exists()


def link_a_folder(run: RunDir) -> None:
    """Put a link in the place of a directory, with the same files behind it."""
    shutil.move(run.evidence / "steps", run.path / "steps")
    (run.evidence / "steps").symlink_to(run.path / "steps")


Tamper = Callable[[RunDir], object]

TAMPERINGS: dict[str, tuple[Tamper, str]] = {
    "bundle grown": (lambda run: change(run.bundle), "bytes, run.json says"),
    "bundle of other files": (
        lambda run: bundle(plan="{}").write(run.bundle),
        "the manifest of .* the host's is",
    ),
    "bundle of another size": (
        lambda run: rerecord(run, bundle=run.read_record().bundle.model_copy(update={"size": 5})),
        "bytes, run.json says 5",
    ),
    "file changed": (lambda run: change(run.evidence / "steps/a/log"), "log was changed"),
    "file emptied": (lambda run: (run.evidence / "steps/a/log").write_bytes(b""), "was changed"),
    "file removed": (lambda run: (run.evidence / "steps/a/log").unlink(), "log is missing"),
    "file linked": (lambda run: replace_by_a_link(run.evidence / "steps/a/log"), "log is a link"),
    "folder linked": (link_a_folder, "steps is a link"),
    "file added": (lambda run: (run.evidence / "more").write_bytes(b""), "did not come with"),
    "link added": (lambda run: (run.evidence / "more").symlink_to("."), "is a link|did not come"),
    "hidden file added": (
        lambda run: (run.evidence / "steps/a/.x").write_bytes(b""),
        "did not come with",
    ),
    "manifest changed": (lambda run: change(run.evidence / "manifest.json"), "manifest"),
    "manifest removed": (lambda run: (run.evidence / "manifest.json").unlink(), "no usable"),
    "manifest damaged": (
        lambda run: (run.evidence / "manifest.json").write_bytes(b"{"),
        "no usable manifest",
    ),
    "file and manifest changed together": (forge_with_its_manifest, "manifest"),
    "evidence removed": (lambda run: shutil.rmtree(run.evidence), "no usable manifest"),
    "plan changed": (lambda run: change(run.plan), "plan.json was changed"),
    "plan removed": (lambda run: run.plan.unlink(), "cannot read .*plan.json"),
    "plan damaged": (
        lambda run: (run.plan.write_bytes(b"{"), rerecord(run, plan_sha256="")),
        "plan.json is damaged",
    ),
    "ledger changed": (lambda run: change(run.ledger), "ledger.yaml was changed"),
    "ledger removed": (lambda run: run.ledger.unlink(), "cannot read .*ledger.yaml"),
    "tree of the record changed": (
        lambda run: rerecord(run, tree=Tree(local="b" * 40, host="b" * 40)),
        "the tree is b+ here, a+ in the host's journal",
    ),
    "tree of the host unknown": (
        lambda run: rerecord(run, tree=Tree(local=TREE)),
        "the tree is",
    ),
    "counts of the record changed": (
        lambda run: rerecord(run, counts={"passed": 2}),
        "run.json counts 2 passed, the host's journal 1 passed",
    ),
    "record of another run": (
        lambda run: rerecord(run, run_id="20260101-000000-exp-bbbb"),
        "exp-bbbb",
    ),
    "record removed": (lambda run: run.record_file.unlink(), "cannot read .*run.json"),
    "record damaged": (lambda run: run.record_file.write_bytes(b"{"), "is damaged"),
    "record without a bundle": (lambda run: rerecord(run, bundle=None), "is not home yet"),
    "record not home": (lambda run: rerecord(run, state="ended"), "is not home yet"),
}


class TestRun:
    def test_an_honest_one_passes_with_a_line_for_each_thing(self, run: RunDir) -> None:
        lines = list(check.run(run))

        assert [line.split(":")[0] for line in lines] == [
            "bundle.zip",
            "evidence/",
            "tree",
            "journal",
            "plan",
            "ledger",
        ]
        assert "4 files" in lines[1]
        assert "committed before the run" in lines[5]

    @pytest.mark.parametrize("what", TAMPERINGS)
    def test_tampering_is_seen(self, run: RunDir, what: str) -> None:
        tamper, words = TAMPERINGS[what]
        tamper(run)

        with pytest.raises(EvidenceError, match=words):
            list(check.run(run))

    def test_without_the_zip_the_manifest_beside_the_files_has_to_do(self, run: RunDir) -> None:
        run.bundle.unlink()

        assert "removed since" in next(iter(check.run(run)))

        change(run.evidence / "steps/a/log")
        with pytest.raises(EvidenceError, match="log was changed"):
            list(check.run(run))

    def test_without_a_ledger_there_is_none_to_check(self, run: RunDir) -> None:
        rerecord(run, ledger=None)

        assert list(check.run(run))[-1] == "ledger: none"

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (bundle(plan='{"run_id": "other"}'), "is not the one that was ordered"),
            (bundle(plan="{"), "plan.json is damaged"),
            (bundle(events=[{"event": "run_started", "run_id": RUN_ID}]), "unknown in the host"),
            (bundle(events=EVENTS[1:]), "unknown in the host"),
            (bundle(events=[{"event": ["x"]}]), "journal"),
            (bundle(run_id="20260101-000000-exp-bbbb"), "bundle of .*exp-bbbb"),
            (Zip().add("plan.json", PLAN.encode()), "journal"),
        ],
        ids=[
            "other plan",
            "bad plan",
            "no tree",
            "no start",
            "bad event",
            "other run",
            "no journal",
        ],
    )
    def test_a_host_that_sent_something_else_is_seen(
        self, tmp_path: Path, content: Zip, words: str
    ) -> None:
        folder = home(tmp_path / "artifacts", content)

        with pytest.raises(EvidenceError, match=words):
            list(check.run(folder))


class TestWhatIsRead:
    def test_an_honest_run_may_be_read_with_a_changed_log(self, run: RunDir) -> None:
        change(run.evidence / "steps/a/log")

        check.what_is_read(run, run.read_record())

    @pytest.mark.parametrize(
        ("tamper", "words"),
        [
            (lambda run: change(run.evidence / "steps/a/results.jsonl"), "results.jsonl was chang"),
            (lambda run: change(run.evidence / "journal.jsonl"), "journal.jsonl was changed"),
            (lambda run: change(run.evidence / "manifest.json"), "manifest.json was changed"),
            (lambda run: (run.evidence / "steps/a/results.jsonl").unlink(), "is missing"),
            (lambda run: (run.evidence / "steps/results.jsonl").write_bytes(b""), "did not come"),
            (lambda run: shutil.rmtree(run.evidence), "holds no journal"),
        ],
    )
    def test_nothing_that_was_changed_is_read(
        self, run: RunDir, tamper: Tamper, words: str
    ) -> None:
        tamper(run)

        with pytest.raises(EvidenceError, match=words) as raised:
            check.what_is_read(run, run.read_record())

        assert "unpacked again from bundle.zip" in raised.value.fix

    def test_a_forger_has_to_know_the_hosts_word_on_the_manifest(self, run: RunDir) -> None:
        run.bundle.unlink()
        forge_with_its_manifest(run)

        with pytest.raises(EvidenceError, match=r"manifest\.json was changed") as raised:
            check.what_is_read(run, run.read_record())

        assert raised.value.fix == f"orch fetch {RUN_ID}"


class TestBundle:
    def test_one_alone_is_checked_without_unpacking_it(self, tmp_path: Path) -> None:
        path = honest().write(tmp_path / "bundle.zip")

        assert check.bundle(path) == check.CheckedBundle(RUN_ID, 2)
        assert list(tmp_path.iterdir()) == [path]

    def test_a_changed_one_is_refused(self, tmp_path: Path) -> None:
        path = (
            honest()
            .add("x", b"1", sha256=hashlib.sha256(b"2").hexdigest())
            .write(tmp_path / "bundle.zip")
        )

        with pytest.raises(EvidenceError, match="`x` is not what the manifest says"):
            check.bundle(path)
