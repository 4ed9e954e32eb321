"""Checkouts made ahead: taken once, by one run, and only what nobody has touched since."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agent import spare
from orchestrator.agent.blobs import BlobError
from tests.agent.trees import entries, executable, link, on_disk, stored

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def small_trees_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare, "MIN_FILES", 3)


FILES: dict[str, Any] = {
    "a": b"one\n",
    "deep/b": b"two\n",
    "deep/er/run.sh": executable(b"#!/bin/sh\n"),
    "deep/link": link(b"b"),
    "odd \udcff\n": b"x",
}


class Host:
    """A store of blobs and a directory of spares."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "spares"
        self.blobs = folder / "blobs"
        self.target = folder / "tree"

    def make(self, files: dict[str, Any], name: str = "pack") -> bool:
        return spare.make(str(self.folder), stored(self.blobs, files, name), entries(files))

    def claim(self, files: dict[str, Any], target: Path | None = None) -> set[bytes]:
        return spare.claim(str(self.folder), entries(files), str(target or self.target))

    @property
    def spares(self) -> list[Path]:
        return sorted(p for p in self.folder.iterdir() if not p.name.startswith("."))

    @property
    def litter(self) -> list[str]:
        return [p.name for p in self.folder.iterdir() if p.name.startswith(".")]

    @property
    def tree(self) -> Path:
        return self.spares[0] / "tree"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path)
    assert made.make(FILES)
    return made


class TestClaiming:
    def test_gives_every_file_of_the_same_code(self, host: Host) -> None:
        there = host.claim(FILES)

        assert there == {os.fsencode(path) for path in FILES}
        assert on_disk(host.target) == FILES
        assert host.spares == []
        assert host.litter == []

    def test_leaves_out_what_differs_and_what_is_not_wanted(self, host: Host) -> None:
        wanted = {
            "a": b"one\n",
            "deep/b": b"changed\n",
            "deep/link": link(b"b"),
            "odd \udcff\n": b"x",
            "new/c": b"three\n",
        }

        there = host.claim(wanted)

        assert there == {b"a", b"deep/link", b"odd \xff\n"}
        assert set(on_disk(host.target)) == {"a", "deep/link", "odd \udcff\n"}
        assert not (host.target / "deep/er").exists()

    def test_a_mode_that_differs_is_a_difference(self, host: Host) -> None:
        there = host.claim({**FILES, "a": executable(b"one\n")})

        assert b"a" not in there
        assert len(there) == len(FILES) - 1

    def test_directories_that_are_files_now_are_gone(self, host: Host) -> None:
        wanted = {**{path: FILES[path] for path in ("a", "odd \udcff\n")}, "deep": b"a file now\n"}

        host.claim(wanted)

        assert not (host.target / "deep").exists()

    def test_too_little_in_common_is_not_worth_it(self, host: Host) -> None:
        wanted = {"a": b"one\n", **{f"new{n}": b"%d" % n for n in range(5)}}

        assert host.claim(wanted) == set()
        assert not host.target.exists()
        assert len(host.spares) == 1

    def test_the_best_of_several_is_taken(self, host: Host) -> None:
        host.make({**FILES, "a": b"other\n", "deep/b": b"other\n"}, "second")

        assert len(host.claim(FILES)) == len(FILES)
        assert len(host.spares) == 1

    def test_a_small_tree_does_not_need_one(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spare, "MIN_FILES", 100)

        assert host.claim(FILES) == set()
        assert host.make(FILES) is False

    def test_without_a_spare_there_is_none(self, tmp_path: Path) -> None:
        assert Host(tmp_path).claim(FILES) == set()


class TestTampering:
    def change(self, path: Path) -> None:
        path.write_text("two!", "ascii")

    def change_and_set_the_time_back(self, path: Path) -> None:
        facts = path.stat()
        path.write_bytes(b"TWO\n")
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def touch(self, path: Path) -> None:
        os.utime(path, (1, 1))

    def make_executable(self, path: Path) -> None:
        path.chmod(0o755)

    def replace(self, path: Path) -> None:
        other = path.with_name("other")
        shutil.copy2(path, other)
        other.replace(path)

    def link_elsewhere(self, path: Path) -> None:
        path.unlink()
        path.symlink_to("/etc/passwd")

    def become_a_folder(self, path: Path) -> None:
        path.unlink()
        path.mkdir()
        (path / "x").write_text("x", "ascii")

    @pytest.mark.parametrize(
        "how",
        [
            "change",
            "change_and_set_the_time_back",
            "touch",
            "make_executable",
            "replace",
            "link_elsewhere",
            "become_a_folder",
        ],
    )
    def test_a_file_that_was_touched_is_not_used(self, host: Host, how: str) -> None:
        path = host.tree / "deep/b"
        wait_for_the_clock_of(path)
        getattr(self, how)(path)

        there = host.claim(FILES)

        assert b"deep/b" not in there
        assert len(there) == len(FILES) - 1
        assert not (host.target / "deep/b").exists()

    def test_a_file_that_was_added_is_removed(self, host: Host) -> None:
        (host.tree / "deep/more").write_text("x", "ascii")
        (host.tree / "empty/folder").mkdir(parents=True)
        (host.tree / "way-out").symlink_to("/etc")

        host.claim(FILES)

        assert on_disk(host.target) == FILES
        assert not (host.target / "empty").exists()

    def test_what_lies_behind_a_planted_link_is_left_alone(
        self, host: Host, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "b").write_text("precious", "ascii")
        shutil.rmtree(host.tree / "deep")
        (host.tree / "deep").symlink_to(outside)

        there = host.claim(FILES)

        assert there == {b"a", b"odd \xff\n"}
        assert (outside / "b").read_text("ascii") == "precious"
        assert not (host.target / "deep").exists()

    @pytest.mark.parametrize(
        "text", ["", "{", "null", "5", "[5]", '[["a"]]', "[[5, 5, 5, 5]]", "[" * 100_000]
    )
    def test_a_damaged_index_makes_it_useless_not_fatal(self, host: Host, text: str) -> None:
        (host.spares[0] / "index.json").write_text(text, "ascii")

        assert host.claim(FILES) == set()
        assert not host.target.exists()

    def test_one_that_cannot_be_cleaned_is_dropped(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (host.tree / "more").write_text("x", "ascii")
        real = os.unlink

        def refuse(path: Any, *more: Any, **named: Any) -> None:
            if os.fsencode(path).endswith(b"more") and not named:
                raise PermissionError(1, "not permitted")
            real(path, *more, **named)

        monkeypatch.setattr(os, "unlink", refuse)

        assert host.claim(FILES) == set()
        assert not host.target.exists()


def wait_for_the_clock_of(path: Path) -> None:
    """Until a change would get another change time: a file system's clock ticks now and then."""
    probe = path.parent.parent.parent.parent / "probe"
    end = time.monotonic() + 5
    while time.monotonic() < end:
        probe.write_text("x", "ascii")
        if probe.stat().st_ctime_ns > path.lstat().st_ctime_ns:
            return
    raise AssertionError("the clock of the file system stands still")


class TestMaking:
    def test_a_damaged_blob_leaves_nothing(self, tmp_path: Path) -> None:
        host = Host(tmp_path)
        store = stored(host.blobs, FILES)
        pack = next(iter(host.blobs.glob("*.pack")))
        pack.write_bytes(bytes(pack.stat().st_size))

        with pytest.raises(BlobError):
            spare.make(str(host.folder), store, entries(FILES))

        assert list(host.folder.iterdir()) == []

    def test_the_oldest_go(self, host: Host) -> None:
        for number in range(5):
            host.make({**FILES, "a": b"%d" % number}, f"pack{number}")
            os.utime(host.spares[-1], (number, number))

        assert len(host.spares) == spare.MAX_SPARES
        assert host.litter == []

    def test_a_tree_that_is_too_large_is_not_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spare, "MAX_BYTES", 5)

        assert Host(tmp_path).make(FILES) is False


class TestAtTheSameTime:
    def test_threads_that_want_one_spare_get_it_once(self, host: Host, tmp_path: Path) -> None:
        got: list[set[bytes]] = []
        start = threading.Barrier(8)

        def want(number: int) -> None:
            start.wait(30)
            got.append(host.claim(FILES, tmp_path / f"tree{number}"))

        threads = [threading.Thread(target=want, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        assert len(got) == 8
        assert sorted(map(len, got))[-1] == len(FILES)
        assert sum(map(bool, got)) == 1
        assert host.litter == []

    def test_processes_that_make_and_claim_never_see_half_a_spare(self, tmp_path: Path) -> None:
        program = f"""
import json, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from orchestrator.agent import spare
from tests.agent.test_spare import FILES, Host
from tests.agent.trees import on_disk
spare.MIN_FILES = 3
host, me = Host(Path(sys.argv[1])), sys.argv[2]
claimed = 0
for turn in range(15):
    target = Path(sys.argv[1]) / f"tree-{{me}}-{{turn}}"
    there = host.claim(FILES, target)
    if there:
        claimed += 1
        assert len(there) == len(FILES), there
        assert on_disk(target) == FILES
    host.make(FILES, f"pack-{{me}}-{{turn}}")
print(claimed)
"""
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path), str(number)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(3)
        ]
        told = [worker.communicate(timeout=60) for worker in workers]

        assert [err for _, err in told] == ["", "", ""]
        assert sum(int(out) for out, _ in told) > 0
        assert json.dumps(Host(tmp_path).litter) == "[]"
