"""Which files a snapshot takes: ignored ones, included ones, those git was told to overlook."""

from __future__ import annotations

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import snapshot
from tests.conftest import Project
from tests.source.working_copy import files, take


class TestIgnoredFiles:
    def test_ignored_files_stay_here(self, project: Project) -> None:
        project.write(".gitignore", "*.bin\nbuild/\n")
        project.write("nested/.gitignore", "/only-here\n**/deep.txt\n")
        project.write("x.bin", "x")
        project.write("build/out", "x")
        project.write("nested/only-here", "x")
        project.write("nested/a/b/deep.txt", "x")
        project.write("nested/a/only-here", "sent\n")

        taken = take(project)

        assert set(files(taken)) == {".gitignore", "nested/.gitignore", "nested/a/only-here"}

    def test_an_ignored_file_that_is_tracked_travels_with_its_changes(
        self, project: Project
    ) -> None:
        project.write("data.bin", "old")
        project.commit()
        project.write(".gitignore", "*.bin\n")
        project.write("data.bin", "new")

        taken = take(project)

        assert files(taken)["data.bin"] == b"new"

    def test_include_brings_ignored_files_along(self, project: Project) -> None:
        project.write(".gitignore", "build/\n")
        project.write("build/lib/x.so", b"\x7fELF\0")
        project.write("build/lib/y.o", b"\0")

        taken = take(project, include=("build/**/*.so",))

        assert set(files(taken)) == {".gitignore", "build/lib/x.so"}

    def test_include_of_a_tracked_file_is_no_mistake(self, project: Project) -> None:
        project.write("build/x.so", "old")
        project.commit()
        project.write("build/x.so", "new")

        taken = take(project, include=("build/*.so",))

        assert files(taken) == {"build/x.so": b"new"}

    def test_include_that_matches_nothing_is_refused(self, project: Project) -> None:
        project.write("a", "1\n")

        with pytest.raises(SourceError, match=r"`include: build/\*\*` matches no file"):
            take(project, include=("build/**",))

    def test_what_stays_here_is_listed(self, project: Project) -> None:
        project.write(".gitignore", "*.bin\nbuild/\n")
        project.write("x y.bin", "x")
        project.write("build/out", "x")

        taken = take(project)

        assert snapshot.unsent(taken.repository) == ["build/", "x y.bin"]


class TestFilesGitWasToldToOverlook:
    @pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
    def test_their_changes_travel(self, project: Project, flag: str) -> None:
        project.write("settings", "committed\n")
        project.commit()
        project.git("update-index", flag, "settings")
        project.write("settings", "mine\n")

        taken = take(project)

        assert files(taken) == {"settings": b"mine\n"}
        assert taken.code.dirty
        assert project.git("ls-files", "-v")[0] in "hS"

    @pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
    def test_without_changes_the_code_is_not_dirty(self, project: Project, flag: str) -> None:
        project.write("settings", "committed\n")
        project.commit()
        project.git("update-index", flag, "settings")

        taken = take(project)

        assert taken.tree == project.git("rev-parse", "HEAD^{tree}")
        assert not taken.code.dirty

    def test_the_code_is_dirty_when_an_ignored_file_was_sent_with_it(
        self, project: Project
    ) -> None:
        """`git status` is clean, and yet this is not the tree of the commit."""
        project.write(".gitignore", "build/\n")
        project.write("a", "1\n")
        project.commit()
        project.write("build/kernel.so", b"binary")

        taken = take(project, include=("build/*",))

        assert taken.tree != project.git("rev-parse", "HEAD^{tree}")
        assert taken.code.dirty
        assert not take(project).code.dirty

    def test_a_deleted_one_that_was_assumed_unchanged_is_deleted(self, project: Project) -> None:
        project.write("a", "1\n")
        project.write("b", "2\n")
        project.commit()
        project.git("update-index", "--assume-unchanged", "a")
        (project.path / "a").unlink()

        taken = take(project)

        assert set(files(taken)) == {"b"}

    def test_what_a_sparse_checkout_left_out_travels_from_the_index(self, project: Project) -> None:
        project.write("in/a", "1\n")
        project.write("out/b", "2\n")
        project.commit()
        project.git("sparse-checkout", "set", "--cone", "in")
        assert not (project.path / "out").exists()
        project.write("in/a", "changed\n")

        taken = take(project)

        assert files(taken) == {"in/a": b"changed\n", "out/b": b"2\n"}

    @pytest.mark.parametrize("index", ["--no-sparse-index", "--sparse-index"])
    def test_files_that_lie_outside_of_a_sparse_checkout_travel_all_the_same(
        self, project: Project, index: str
    ) -> None:
        project.write("in/a", "1\n")
        project.write("out/deep/b", "2\n")
        project.write("out/deep/c", "3\n")
        project.commit()
        project.git("sparse-checkout", "set", "--cone", index, "in")
        project.write("out/deep/b", "changed\n")
        project.write("out/new", "new\n")

        taken = take(project)

        assert files(taken) == {
            "in/a": b"1\n",
            "out/deep/b": b"changed\n",
            "out/deep/c": b"3\n",
            "out/new": b"new\n",
        }
