"""Cleaning up: what is old goes, what is alive or needed stays."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import blobs, runlock
from orchestrator.agent import sweep as sweep_module
from orchestrator.agent.layout import Root, RunFolder
from tests.agent.controller import (
    RUN_ID,
    Controller,
    job,
    manifest,
    plan,
    run,
    wait_until,
)
from tests.agent.test_follow import attach, start, wait_script
from tests.agent.trees import blob_hash, stored

FILES = {"a": b"x\n", "b": b"y" * 5000}
OTHER = RUN_ID.replace("20260101", "20260102")


def sweep(
    root: Path,
    *,
    older_than_s: float = 0.0,
    keep_bytes: int = 0,
    dry_run: bool = False,
    unfetched: bool = False,
) -> dict[str, Any]:
    with Controller(root) as controller:
        return controller.ask(
            "sweep",
            "swept",
            older_than_s=older_than_s,
            keep_bytes=keep_bytes,
            dry_run=dry_run,
            unfetched=unfetched,
        )


def has_ended(root: Path) -> None:
    """Wait until the supervisor has bundled everything and is gone."""
    run = RunFolder(str(root / "runs" / RUN_ID))
    wait_until(Path(run.bundle_facts).exists, "the bundle")
    wait_until(lambda: not runlock.is_supervised(run), "the supervisor to be gone")


def removed(answer: dict[str, Any]) -> list[str]:
    return [one["run_id"] for one in answer["runs"]]


def runs(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "runs").iterdir())


def packs(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "blobs").iterdir())


def age(path: Path, seconds: float) -> None:
    when = time.time() - seconds
    os.utime(path, (when, when))


class TestRuns:
    def test_old_ones_go_and_young_ones_stay(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))
        run(tmp_path, FILES, job("one", "true"), run_id=OTHER)
        age(tmp_path / "runs" / RUN_ID / "journal.jsonl", 1000)

        answer = sweep(tmp_path, older_than_s=500, keep_bytes=1 << 30)

        assert removed(answer) == [RUN_ID]
        assert answer["runs"][0]["size"] > 0
        assert runs(tmp_path) == [OTHER]

    def test_a_dry_run_only_says_what_would_go(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))
        before = sorted(p for p in tmp_path.rglob("*") if p.is_file())

        answer = sweep(tmp_path, dry_run=True)

        assert removed(answer) == [RUN_ID]
        assert answer["packs_removed"] == 0, "the run that would go still needs them"
        assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before

    def test_the_only_copy_of_one_is_kept_and_told(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate))
        gate.touch()
        has_ended(root)

        kept = sweep(root)
        attach(root)
        gone = sweep(root)

        assert (removed(kept), kept["kept"]) == ([], [RUN_ID])
        assert (removed(gone), gone["kept"]) == ([RUN_ID], [])

    def test_bytes_that_no_controller_confirmed_may_be_lost_in_the_link(
        self, tmp_path: Path
    ) -> None:
        with Controller(tmp_path) as controller:
            controller.push(plan(FILES, job("one", "true")), FILES)
            controller.expect("started")
            list(controller.frames_until("bundle_end"))
        has_ended(tmp_path)

        assert sweep(tmp_path)["kept"] == [RUN_ID]

    def test_the_only_copy_goes_when_that_is_ordered(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate))
        gate.touch()
        has_ended(root)

        answer = sweep(root, unfetched=True)

        assert (removed(answer), answer["kept"]) == ([RUN_ID], [])
        assert runs(root) == []

    def test_one_whose_files_are_not_all_home_is_left(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))
        facts = tmp_path / "runs" / RUN_ID / "bundle.json"
        told = json.loads(facts.read_bytes())
        facts.write_text(json.dumps({**told, "left_behind": 2}), "utf-8")

        left = sweep(tmp_path)
        gone = sweep(tmp_path, unfetched=True)

        assert told["left_behind"] == 0
        assert (removed(left), left["left"]) == ([], [RUN_ID])
        assert (removed(gone), gone["left"]) == ([RUN_ID], [])

    def test_a_running_one_is_never_touched(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate))
        age(root / "runs" / RUN_ID / "journal.jsonl", 10_000)

        answer = sweep(root)
        gate.touch()
        heard = attach(root)

        assert removed(answer) == []
        assert heard.ended("job0")["state"] == "passed"

    def test_one_that_is_being_pushed_is_never_touched(self, tmp_path: Path) -> None:
        with Controller(tmp_path) as controller:
            controller.hello("run", plan=plan(FILES, job("one", "true")).to_json())
            controller.expect("welcome")
            wait_until(Path(controller.run.lock).exists, "the supervisor to hold its lock")
            age(Path(controller.run.path), 10_000)

            sweep(tmp_path)

            assert runs(tmp_path) == [RUN_ID]

    def test_what_a_killed_agent_left_half_pushed_goes(self, tmp_path: Path) -> None:
        root = Root.at(str(tmp_path))
        half = Path(root.run(RUN_ID).path)
        (half / "tree").mkdir(parents=True)
        (half / "plan.json").write_text("{}", "ascii")
        age(half, 1000)

        sweep(tmp_path, older_than_s=500)

        assert runs(tmp_path) == []

    def test_what_a_killed_sweep_left_half_removed_goes(self, tmp_path: Path) -> None:
        root = Root.at(str(tmp_path))
        (Path(root.runs) / f".gone-{RUN_ID}" / "tree").mkdir(parents=True)

        sweep(tmp_path, older_than_s=500)

        assert runs(tmp_path) == []

    @pytest.mark.parametrize("name", ["plan.json", "journal.jsonl", "manifest"])
    def test_a_damaged_one_stops_nothing(self, tmp_path: Path, name: str) -> None:
        run(tmp_path, FILES, job("one", "true"))
        run(tmp_path, FILES, job("one", "true"), run_id=OTHER)
        (tmp_path / "runs" / RUN_ID / name).write_bytes(b"rubbish\n")

        answer = sweep(tmp_path)

        assert sorted(removed(answer)) == [RUN_ID, OTHER]
        assert runs(tmp_path) == []

    def test_one_that_another_sweep_removed_meanwhile_is_not_told_of(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "runs" / RUN_ID
        folder.mkdir(parents=True)
        hold = runlock.hold

        def held_after_the_other_is_done(run: RunFolder) -> int:
            handle = hold(run)
            shutil.rmtree(run.path)
            return handle

        monkeypatch.setattr(runlock, "hold", held_after_the_other_is_done)
        broom = sweep_module._Broom(False, unfetched=False)

        assert broom.take_run(RunFolder(str(folder))) == []
        assert broom.take_run(RunFolder(str(folder))) == []
        assert (broom.kept, broom.failed) == ([], [])

    def test_other_directories_of_the_user_stay(self, tmp_path: Path) -> None:
        Root.at(str(tmp_path))
        (tmp_path / "runs" / "my notes").mkdir()

        sweep(tmp_path)

        assert runs(tmp_path) == ["my notes"]


class TestContents:
    def test_packs_that_no_run_needs_go_those_unused_for_longest_first(
        self, tmp_path: Path
    ) -> None:
        root = Root.at(str(tmp_path))
        for number in range(3):
            stored(Path(root.blobs), {"x": b"%d" % number * 1000}, f"pack{number}")
            age(Path(root.blobs) / f"pack{number}.sha1.pack", 1000 - number)

        answer = sweep(tmp_path, keep_bytes=1500)

        assert (answer["packs_removed"], answer["blob_bytes_removed"]) == (2, 2000)
        assert packs(tmp_path) == ["pack2.sha1.index", "pack2.sha1.pack"]

    def test_those_that_a_run_needs_stay_whatever_their_size(self, tmp_path: Path) -> None:
        run(tmp_path, FILES, job("one", "true"))
        before = packs(tmp_path)

        answer = sweep(tmp_path, older_than_s=10_000)

        assert answer["packs_removed"] == 0
        assert packs(tmp_path) == before

    def test_a_pack_that_a_killed_agent_left_without_its_index_goes(self, tmp_path: Path) -> None:
        root = Root.at(str(tmp_path))
        Path(root.blobs, "half.sha1.pack").write_bytes(b"x" * 1000)
        Path(root.blobs, "half.sha1.index.part").write_bytes(b"x")
        Path(root.blobs, "lost.sha1.index").write_bytes(b"x" * 36)

        sweep(tmp_path, keep_bytes=1 << 30)

        assert packs(tmp_path) == []

    def test_a_push_under_way_is_not_waited_for_for_ever(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = Root.at(str(tmp_path))
        stored(Path(root.blobs), {"x": b"x" * 1000})
        with held(root, fcntl.LOCK_SH):
            begun = time.monotonic()

            answer = sweep(tmp_path)

            assert time.monotonic() - begun < 20
        assert answer["busy"] is True
        assert len(packs(tmp_path)) == 2

    def test_a_push_that_begins_meanwhile_sees_what_was_removed(self, tmp_path: Path) -> None:
        root = Root.at(str(tmp_path))
        stored(Path(root.blobs), FILES)
        with Controller(tmp_path) as controller, held(root, fcntl.LOCK_EX) as lock:
            controller.hello("run", plan=plan(FILES, job("one", "true")).to_json())
            controller.send_stream("manifest", manifest(FILES))
            controller.expect("welcome")
            wait_until(lambda: somebody_waits_for(lock), "the push to wait for the sweep")
            for path in Path(root.blobs).iterdir():
                path.unlink()
            fcntl.flock(lock, fcntl.LOCK_UN)

            need = controller.expect("need")

        assert need["count"] == 2


@contextmanager
def held(root: Root, kind: int) -> Iterator[int]:
    """The lock of the store, as a push (shared) or a sweep (alone) holds it."""
    handle = os.open(f"{root.blobs}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, kind)
        yield handle
    finally:
        os.close(handle)


def somebody_waits_for(lock: int) -> bool:
    """Whether another process has the file open: it asks for the lock again and again."""
    inode = os.fstat(lock).st_ino
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if path.stat().st_ino == inode and path.parts[2] != str(os.getpid()):
                return True
        except OSError:
            continue
    return False


class TestSpares:
    def test_old_ones_and_litter_go(self, tmp_path: Path) -> None:
        root = Root.at(str(tmp_path))
        for name, seconds in (("old", 1000), ("young", 0), (".part-x", 1000), (".gone-y", 1000)):
            (Path(root.spares) / name / "tree").mkdir(parents=True)
            age(Path(root.spares) / name, seconds)

        sweep(tmp_path, older_than_s=500)

        assert [path.name for path in Path(root.spares).iterdir()] == ["young"]


class TestAgents:
    def make(self, root: Path, name: str, seconds: float) -> Path:
        folder = root / "agents" / name / "orchestrator"
        folder.mkdir(parents=True)
        age(folder.parent, seconds)
        return folder.parent

    def test_old_ones_go(self, tmp_path: Path) -> None:
        old = self.make(tmp_path, "aaaa", 1000)
        young = self.make(tmp_path, "bbbb", 0)

        answer = sweep(tmp_path, older_than_s=500)

        assert answer["agents"] == 1
        assert not old.exists()
        assert young.exists()

    def test_none_goes_while_a_run_may_still_load_modules_from_it(self, tmp_path: Path) -> None:
        root, gate = tmp_path / "root", tmp_path / "gate"
        start(root, wait_script(gate))
        old = self.make(root, "aaaa", 1000)

        answer = sweep(root, older_than_s=500)
        gate.touch()
        attach(root)

        assert answer["agents"] == 0
        assert old.exists()


def test_a_store_of_two_formats_is_swept_as_one(tmp_path: Path) -> None:
    root = Root.at(str(tmp_path))
    stored(Path(root.blobs), {"x": b"x"}, "one", "sha1")
    stored(Path(root.blobs), {"x": b"x"}, "two", "sha256")
    assert {name for _, _, name, _ in blobs.packs(root.blobs)} == {"one.sha1", "two.sha256"}
    assert blob_hash(b"x") != blob_hash(b"x", "sha256")

    answer = sweep(tmp_path)

    assert answer["packs_removed"] == 2
