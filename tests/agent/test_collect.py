"""What a step wrote, by globs: nothing older, nothing behind a link, nothing secret."""

from __future__ import annotations

import glob
import os
import stat
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.agent import collect as collecting
from orchestrator.agent.collect import Collected, collect, start_mark
from tests.agent.trees import on_disk


class Step:
    """A working directory, and what is collected from it."""

    def __init__(self, folder: Path) -> None:
        self.base = folder / "work dir"
        self.base.mkdir()
        self.target = folder / "files"
        (folder / "step").mkdir()
        self.folder = folder / "step"
        self.since = 0

    def begin(self) -> None:
        self.since = start_mark(str(self.folder))

    def write(self, name: str, body: str = "x") -> Path:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, "utf-8")
        return path

    def collect(self, *patterns: str, secrets: tuple[bytes, ...] = ()) -> Collected:
        return collect(patterns, str(self.base), str(self.target), self.since, secrets)

    def taken(self, *patterns: str) -> set[str]:
        self.collect(*patterns)
        return set(on_disk(self.target)) if self.target.exists() else set()


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


class TestPatterns:
    def test_a_file_that_two_of_them_name_is_taken_once(self, step: Step) -> None:
        step.write("a.json")

        done = step.collect("*.json", "a.*")

        assert (done.files, done.size, done.notes) == (1, 1, [])

    def test_one_that_matches_nothing_is_told(self, step: Step) -> None:
        done = step.collect("out/*.json")

        assert done.notes == ["`collect: out/*.json` matches no file"]

class TestFreshness:
    def test_what_it_wrote_over_is_taken(self, step: Step) -> None:
        step.write("result.json", "old")
        step.begin()
        step.write("result.json", "new")

        step.collect("*.json")

        assert (step.target / "result.json").read_text("utf-8") == "new"

    def test_a_time_set_back_hides_nothing(self, step: Step) -> None:
        step.begin()
        os.utime(step.write("copied.json"), (1, 1))

        assert step.taken("*.json") == {"copied.json"}

    def test_a_touch_makes_an_old_file_this_steps_own(self, step: Step) -> None:
        path = step.write("old.json")
        step.begin()
        path.touch()

        assert step.taken("*.json") == {"old.json"}

    def test_the_mark_leaves_no_file(self, step: Step) -> None:
        step.begin()

        assert list(step.folder.iterdir()) == []


class TestLinks:
    def test_are_told_and_not_taken(self, step: Step) -> None:
        step.write("a.json")
        (step.base / "link.json").symlink_to("/etc/passwd")

        done = step.collect("*.json")

        assert set(on_disk(step.target)) == {"a.json"}
        assert done.notes == ["`link.json` is a link and is not collected"]

class TestOddFiles:
    def test_names_that_not_every_laptop_can_hold_are_encoded(self, step: Step) -> None:
        for name in ("time 12:30", "a?b", "\udcff\udcfe", "line\nbreak", "ok ü"):
            step.write(name)

        assert step.taken("*") == {"time%2012%3A30", "a%3Fb", "%FF%FE", "line%0Abreak", "ok ü"}

    def test_what_is_no_file_is_passed_over(self, step: Step) -> None:
        os.mkfifo(step.base / "pipe")
        (step.base / "folder.json").mkdir()
        step.write("a.json")

        assert step.taken("*") == {"a.json"}

    def test_modes_and_times_come_along(self, step: Step) -> None:
        path = step.write("tool")
        path.chmod(0o755)
        os.utime(path, (1000, 1000))

        step.collect("*")

        facts = (step.target / "tool").stat()
        assert stat.S_IMODE(facts.st_mode) == 0o755
        assert facts.st_mtime == 1000


class TestSecrets:
    SECRET = b"hunter2-but-longer"

    def test_a_file_that_holds_a_value_is_not_taken(self, step: Step) -> None:
        step.write("leak.txt", "x" * 3000 + self.SECRET.decode())
        step.write("fine.txt")

        done = step.collect("*.txt", secrets=(b"other", self.SECRET))

        assert set(on_disk(step.target)) == {"fine.txt"}
        assert done.notes == ["`leak.txt` holds the value of a secret and is not collected"]

    @pytest.mark.parametrize("before", [(1 << 20) - 1, (1 << 20) - 9, (1 << 20) - 18, 1 << 20])
    def test_a_value_across_the_border_of_two_reads_is_found(
        self, tmp_path: Path, before: int
    ) -> None:
        path = tmp_path / "big"
        path.write_bytes(b"x" * before + self.SECRET + b"y" * 5)

        assert collecting.holds_any(str(path), [self.SECRET])
        assert not collecting.holds_any(str(path), [self.SECRET + b"!"])

def test_a_step_may_have_written_with_another_process(step: Step) -> None:
    step.begin()
    subprocess.run(["sh", "-c", "echo hi > out.txt"], cwd=step.base, check=True, timeout=10)

    assert step.taken("out.txt") == {"out.txt"}
