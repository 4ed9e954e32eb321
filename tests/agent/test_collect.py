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
    @pytest.mark.parametrize(
        ("pattern", "taken"),
        [
            ("out/*.json", {"out/a.json"}),
            ("out/**/*.json", {"out/a.json", "out/deep/b.json", "out/deep/er/c.json"}),
            ("out/**", {"out/a.json", "out/a.txt", "out/deep/b.json", "out/deep/er/c.json"}),
            ("**/*.json", {"top.json", "out/a.json", "out/deep/b.json", "out/deep/er/c.json"}),
            ("*", {"top.json"}),
            ("out/?.txt", {"out/a.txt"}),
            ("out/[ab].json", {"out/a.json"}),
            ("out/a.json", {"out/a.json"}),
            ("**/deep/**/c.json", {"out/deep/er/c.json"}),
            ("out/.hidden/*", {"out/.hidden/d.json"}),
            ("out/*/*.json", {"out/deep/b.json"}),
            ("./out/a.json", {"out/a.json"}),
            ("out//a.json", {"out/a.json"}),
        ],
    )
    def test_mean_what_a_shell_means(self, step: Step, pattern: str, taken: set[str]) -> None:
        for name in (
            "top.json",
            "out/a.json",
            "out/a.txt",
            "out/deep/b.json",
            "out/deep/er/c.json",
            "out/.hidden/d.json",
            ".dot",
        ):
            step.write(name)

        assert step.taken(pattern) == taken

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(
            st.lists(st.sampled_from(["a", "b", "ab", ".h"]), min_size=1, max_size=3).map("/".join),
            max_size=6,
            unique=True,
        ),
        st.lists(st.sampled_from(["*", "**", "a", "b*", "?", ".h"]), min_size=1, max_size=4),
    )
    def test_agree_with_those_of_the_standard_library(
        self, tmp_path_factory: pytest.TempPathFactory, names: list[str], parts: list[str]
    ) -> None:
        step = Step(tmp_path_factory.mktemp("step"))
        for name in names:
            if not any(
                other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in names
            ):
                step.write(name)

        pattern = "/".join(parts)
        found = glob.glob(pattern, root_dir=step.base, recursive=True)  # noqa: PTH207

        # The standard library calls a file `a/` when `a/**` is asked for.
        expected = {n for n in found if not n.endswith("/") and (step.base / n).is_file()}
        assert step.taken(pattern) == expected

    def test_a_file_that_two_of_them_name_is_taken_once(self, step: Step) -> None:
        step.write("a.json")

        done = step.collect("*.json", "a.*")

        assert (done.files, done.size, done.notes) == (1, 1, [])

    def test_one_that_matches_nothing_is_told(self, step: Step) -> None:
        done = step.collect("out/*.json")

        assert done.notes == ["`collect: out/*.json` matches no file"]

    @pytest.mark.parametrize("pattern", ["../outside/*", "/etc/host*", "out/../../outside/x"])
    def test_one_that_leaves_the_directory_takes_nothing(
        self, step: Step, tmp_path: Path, pattern: str
    ) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/x").write_text("x", "ascii")
        step.write("out/a")

        done = step.collect(pattern)

        assert done.files == 0
        assert done.notes == [f"`collect: {pattern}` matches no file"]
        assert not step.target.exists()


class TestFreshness:
    def test_what_an_earlier_step_wrote_is_not_taken(self, step: Step) -> None:
        step.write("old.json", "old")
        step.begin()
        step.write("new.json", "new")

        assert step.taken("*.json") == {"new.json"}

    def test_not_even_what_it_wrote_in_its_last_moment(self, step: Step) -> None:
        """A file system stamps changes by a clock that ticks now and then."""
        for turn in range(50):
            step.write(f"old{turn}.json")
            step.begin()
            step.write(f"new{turn}.json")

            assert f"new{turn}.json" in step.taken("*.json")
            assert f"old{turn}.json" not in step.taken("*.json")

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

    def test_only_old_files_are_told(self, step: Step) -> None:
        step.write("old.json")
        step.begin()

        done = step.collect("*.json")

        assert done.notes == ["`collect: *.json` matches only 1 older file"]

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

    def test_directories_behind_links_are_not_entered(self, step: Step, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/x.json").write_text("x", "ascii")
        step.write("out/a.json")
        (step.base / "out/link").symlink_to(tmp_path / "outside")

        assert step.taken("out/**/*.json", "out/link/x.json", "out/*/x.json") == {"out/a.json"}

    def test_loops_end(self, step: Step) -> None:
        """Two links to `.` make 2^40 paths for whoever follows them."""
        step.write("out/a.json")
        (step.base / "out/one").symlink_to(".")
        (step.base / "out/two").symlink_to(".")
        begun = time.monotonic()

        assert step.taken("**/*.json") == {"out/a.json"}
        assert time.monotonic() - begun < 5


class TestOddFiles:
    def test_names_that_not_every_laptop_can_hold_are_encoded(self, step: Step) -> None:
        for name in ("time 12:30", "a?b", "\udcff\udcfe", "line\nbreak", "ok ü"):
            step.write(name)

        assert step.taken("*") == {"time%2012%3A30", "a%3Fb", "%FF%FE", "line%0Abreak", "ok ü"}

    def test_two_names_that_are_one_on_a_laptop_both_come(self, step: Step) -> None:
        step.write("Model.json", "upper")
        step.write("model.json", "lower")
        step.write("a:b", "colon")
        step.write("a%3Ab", "encoded")

        step.collect("*")

        found = on_disk(step.target)
        assert sorted(found.values()) == [b"colon", b"encoded", b"lower", b"upper"]
        assert len({name.lower() for name in found}) == 4

    def test_what_is_no_file_is_passed_over(self, step: Step) -> None:
        os.mkfifo(step.base / "pipe")
        (step.base / "folder.json").mkdir()
        step.write("a.json")

        assert step.taken("*") == {"a.json"}

    def test_a_file_that_cannot_be_read_is_told_and_the_others_come(
        self, step: Step, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        step.write("a.json")
        step.write("b.json")
        real = collecting.shutil.copy2

        def copy2(source: str, target: str, **options: bool) -> str:
            if source.endswith("a.json"):
                Path(target).write_text("half", "ascii")
                raise PermissionError(13, "Permission denied")
            return str(real(source, target, **options))

        monkeypatch.setattr(collecting.shutil, "copy2", copy2)

        done = step.collect("*.json")

        assert set(on_disk(step.target)) == {"b.json"}
        assert done.files == 1
        assert done.notes == ["`a.json` could not be collected: Permission denied"]

    def test_modes_and_times_come_along(self, step: Step) -> None:
        path = step.write("tool")
        path.chmod(0o755)
        os.utime(path, (1000, 1000))

        step.collect("*")

        facts = (step.target / "tool").stat()
        assert stat.S_IMODE(facts.st_mode) == 0o755
        assert facts.st_mtime == 1000


class TestLimits:
    def test_more_files_than_a_bundle_should_hold(
        self, step: Step, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collecting, "MAX_FILES", 3)
        for number in range(5):
            step.write(f"{number}.json")

        done = step.collect("*.json")

        assert done.files == 3
        assert done.notes == ["2 more files match; only 3 of a step are collected"]

    def test_exactly_so_many_are_not_too_many(
        self, step: Step, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collecting, "MAX_FILES", 2)
        step.write("a")
        step.write("b")

        assert step.collect("*").notes == []

    def test_more_bytes_than_a_laptop_would_take(
        self, step: Step, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collecting, "MAX_BYTES", 10)
        step.write("a", "x" * 8)
        step.write("b", "x" * 8)
        step.write("c", "x")

        done = step.collect("*")

        assert set(on_disk(step.target)) == {"a", "c"}
        assert done.notes == ["`b` is left on the host: 8 bytes are too many for a bundle"]


class TestSecrets:
    SECRET = b"hunter2-but-longer"

    def test_a_file_that_holds_a_value_is_not_taken(self, step: Step) -> None:
        step.write("leak.txt", "x" * 3000 + self.SECRET.decode())
        step.write("fine.txt")

        done = step.collect("*.txt", secrets=(b"other", self.SECRET))

        assert set(on_disk(step.target)) == {"fine.txt"}
        assert done.notes == ["`leak.txt` holds the value of a secret and is not collected"]

    def test_a_name_that_holds_a_value_is_not_taken_either(self, step: Step) -> None:
        step.write(f"{self.SECRET.decode()}.txt")

        done = step.collect("*", secrets=(self.SECRET,))

        assert done.files == 0
        assert self.SECRET.decode() not in " ".join(done.notes)


def test_a_step_may_have_written_with_another_process(step: Step) -> None:
    step.begin()
    subprocess.run(["sh", "-c", "echo hi > out.txt"], cwd=step.base, check=True, timeout=10)

    assert step.taken("out.txt") == {"out.txt"}
