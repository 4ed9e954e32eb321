"""The size guard: its words and sums, and what it counts of a working copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import size
from tests.conftest import Project
from tests.source.working_copy import POINTER, files, take


class TestRefuseAbove:
    def test_the_largest_come_first_with_their_sizes(self) -> None:
        sizes = {f"f{n}": n * 1_000_000 for n in range(1, 13)}

        with pytest.raises(SourceError) as caught:
            size.refuse_above(10_000_000, sizes, "the host lacks files of")

        lines = caught.value.what.splitlines()
        assert lines[0] == (
            "the host lacks files of 78.0 MB, more than the 10.0 MB of `max_upload`; the largest:"
        )
        assert [line.split() for line in lines[1:4]] == [
            ["12.0", "MB", "f12"],
            ["11.0", "MB", "f11"],
            ["10.0", "MB", "f10"],
        ]
        assert len(lines) == 11

    def test_at_the_limit_nothing_is_refused(self) -> None:
        size.refuse_above(3, {"a": 1, "b": 2}, "files hold")


class TestCheckNewFiles:
    def test_counts_files_not_links_nor_directories(self, tmp_path: Path) -> None:
        (tmp_path / "big").write_bytes(b"x" * 100)
        (tmp_path / "link").symlink_to("big")
        (tmp_path / "folder").mkdir()

        size.check_new_files(tmp_path, ["link", "folder", "deleted"], 10)

        with pytest.raises(SourceError, match="big"):
            size.check_new_files(tmp_path, ["big"], 10)


class TestTheSizeGuard:
    def test_names_the_ten_largest_and_two_ways_out_and_stores_nothing(
        self, project: Project
    ) -> None:
        for number in range(12):
            project.write(f"data/{number:02}.bin", os.urandom(1000 * (number + 1)))
        before = project.git("count-objects")

        with pytest.raises(SourceError) as caught:
            take(project, max_new_bytes=50_000)

        assert "0.1 MB, more than the 0.1 MB" in caught.value.what
        assert "data/11.bin" in caught.value.what
        assert "data/02.bin" in caught.value.what
        assert "data/01.bin" not in caught.value.what
        assert ".gitignore" in caught.value.fix
        assert "max_upload" in caught.value.fix
        assert project.git("count-objects") == before

    def test_unchanged_files_do_not_count(self, project: Project) -> None:
        project.write("big", os.urandom(10_000))
        project.commit()
        project.write("small", "x")

        assert set(files(take(project, max_new_bytes=100))) == {"big", "small"}

    def test_the_limit_itself_is_allowed(self, project: Project) -> None:
        project.write("a", b"x" * 100)

        assert set(files(take(project, max_new_bytes=100))) == {"a"}

    def test_unchanged_files_under_git_lfs_count(self, project: Project) -> None:
        """Git has their pointers only; the snapshot would store the content."""
        project.write(".gitattributes", "*.bin filter=lfs -text\n")
        project.git("config", "filter.lfs.clean", f"printf '%s' '{POINTER.decode()}'")
        project.write("model.bin", os.urandom(5000))
        project.commit()
        before = project.git("count-objects")

        with pytest.raises(SourceError, match=r"model\.bin"):
            take(project, max_new_bytes=1000)

        assert project.git("count-objects") == before

    def test_all_included_files_count_together(self, project: Project) -> None:
        project.write(".gitignore", "*.bin\n*.raw\n")
        project.commit()
        project.write("x.bin", b"x" * 300)
        project.write("y.raw", b"y" * 300)

        with pytest.raises(SourceError, match=r"x\.bin"):
            take(project, include=("*.bin", "*.raw"), max_new_bytes=500)

    def test_included_files_count(self, project: Project) -> None:
        project.write(".gitignore", "*.bin\n")
        project.commit()
        project.write("x.bin", b"x" * 1000)

        with pytest.raises(SourceError, match=r"x\.bin"):
            take(project, include=("*.bin",), max_new_bytes=500)
