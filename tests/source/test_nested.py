"""Submodules and plain clones inside the working copy: taken in by content."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import snapshot
from tests.conftest import Project, git
from tests.source.working_copy import MAX_BYTES, files, modes, take, untouched


@pytest.fixture
def library(tmp_path: Path, project: Project) -> Project:
    """A repository of its own, to be used as a submodule."""
    folder = tmp_path / "library"
    folder.mkdir()
    made = Project(folder, project.home, project.env)
    made.git("init", "-q")
    made.write("lib.py", "one\n")
    made.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    made.commit()
    return made


@pytest.fixture
def outer(project: Project, library: Project) -> Project:
    """The project with the library as its submodule `deps/lib`."""
    project.write("main.py", "main\n")
    project.git("submodule", "--quiet", "add", str(library.path), "deps/lib")
    project.commit()
    return project


def inside(project: Project, path: str) -> Project:
    return Project(project.path / path, project.home, project.env)


class TestSubmodules:
    def test_a_clean_one_goes_in_by_content(self, outer: Project) -> None:
        revision = inside(outer, "deps/lib").git("rev-parse", "HEAD")

        taken = take(outer)

        assert files(taken)["deps/lib/lib.py"] == b"one\n"
        assert modes(taken)["deps/lib/run.sh"] == "100755"
        assert "160000" not in modes(taken).values()
        assert taken.code.submodules == {"deps/lib": revision}
        assert not taken.code.dirty

    def test_changes_inside_it_travel_and_are_told(self, outer: Project) -> None:
        sub = inside(outer, "deps/lib")
        sub.write("lib.py", "two\n")
        sub.write("new.py", "new\n")
        (sub.path / "run.sh").unlink()
        revision = sub.git("rev-parse", "HEAD")

        taken = take(outer)

        assert set(files(taken)) == {".gitmodules", "main.py", "deps/lib/lib.py", "deps/lib/new.py"}
        assert files(taken)["deps/lib/lib.py"] == b"two\n"
        assert taken.code.submodules == {"deps/lib": f"{revision}+dirty"}
        assert taken.code.dirty

    def test_one_in_an_ignored_directory_goes_in_by_content(self, outer: Project) -> None:
        outer.write(".gitignore", "deps/\n")

        taken = take(outer)

        assert files(taken)["deps/lib/lib.py"] == b"one\n"

    def test_changes_that_git_was_told_to_ignore_make_the_code_dirty_all_the_same(
        self, outer: Project
    ) -> None:
        outer.git("config", "submodule.deps/lib.ignore", "all")
        outer.git("config", "diff.ignoreSubmodules", "all")
        inside(outer, "deps/lib").write("lib.py", "two\n")

        taken = take(outer)

        assert files(taken)["deps/lib/lib.py"] == b"two\n"
        assert taken.code.dirty

    def test_another_commit_of_it_is_a_change(self, outer: Project) -> None:
        sub = inside(outer, "deps/lib")
        sub.write("lib.py", "two\n")
        sub.commit()

        taken = take(outer)

        assert files(taken)["deps/lib/lib.py"] == b"two\n"
        assert taken.code.dirty

    def test_one_that_is_not_checked_out_stays_here_and_is_told(self, outer: Project) -> None:
        outer.git("submodule", "--quiet", "deinit", "-f", "deps/lib")

        taken = take(outer)

        assert set(files(taken)) == {".gitmodules", "main.py"}
        assert "160000" not in modes(taken).values()
        assert taken.notes == ("the submodule `deps/lib` is not checked out here and is not sent",)

    def test_files_in_the_place_of_one_that_is_not_checked_out_travel(self, outer: Project) -> None:
        outer.git("submodule", "--quiet", "deinit", "-f", "deps/lib")
        outer.write("deps/lib/copied.py", "by hand\n")

        taken = take(outer)

        assert files(taken)["deps/lib/copied.py"] == b"by hand\n"
        assert taken.notes == ()

    def test_nested_ones(self, outer: Project, library: Project, tmp_path: Path) -> None:
        inner = Project(tmp_path / "inner", outer.home, outer.env)
        inner.path.mkdir()
        inner.git("init", "-q")
        inner.write("deep.py", "deep\n")
        inner_revision = inner.commit()
        sub = inside(outer, "deps/lib")
        sub.git("submodule", "--quiet", "add", str(inner.path), "third")
        sub.commit()

        taken = take(outer)

        assert files(taken)["deps/lib/third/deep.py"] == b"deep\n"
        assert taken.code.submodules["deps/lib/third"] == inner_revision

    def test_a_nested_one_that_is_not_checked_out_is_told_with_its_place(
        self, outer: Project, library: Project
    ) -> None:
        sub = inside(outer, "deps/lib")
        sub.git("submodule", "--quiet", "add", str(library.path), "again")
        sub.commit()
        sub.git("submodule", "--quiet", "deinit", "-f", "again")

        taken = take(outer)

        assert taken.notes == (
            "in `deps/lib`: the submodule `again` is not checked out here and is not sent",
        )

    def test_one_in_conflict(self, outer: Project) -> None:
        sub = inside(outer, "deps/lib")
        outer.git("checkout", "-q", "-b", "side")
        sub.git("checkout", "-q", "-b", "side")
        sub.write("lib.py", "side\n")
        sub.commit()
        outer.commit()
        outer.git("checkout", "-q", "main")
        sub.git("checkout", "-q", "main")
        sub.write("lib.py", "main\n")
        sub.commit()
        outer.commit()
        with pytest.raises(Exception, match="merge"):
            outer.git("merge", "side")
        assert "160000" in outer.git("ls-files", "-u")

        taken = take(outer)

        assert files(taken)["deps/lib/lib.py"] == b"main\n"

    def test_one_whose_git_directory_is_lost(self, outer: Project) -> None:
        shutil.rmtree(outer.path / ".git/modules/deps/lib")

        with pytest.raises(SourceError, match="deps/lib") as caught:
            snapshot.take(outer.path, max_new_bytes=MAX_BYTES)

        assert "git submodule update --init" in caught.value.fix

    def test_the_kept_tree_survives_a_collection_of_garbage(self, outer: Project) -> None:
        inside(outer, "deps/lib").write("lib.py", "two\n")
        taken = take(outer)
        outer.git("update-ref", "refs/orch/kept", taken.tree)

        outer.git("gc", "-q", "--prune=now")

        assert files(taken)["deps/lib/lib.py"] == b"two\n"
        outer.git("fsck", "--full", "--strict")


class TestPlainClones:
    def test_one_that_git_does_not_know_goes_in_by_content(
        self, project: Project, library: Project
    ) -> None:
        project.write("main.py", "main\n")
        project.git("clone", "-q", str(library.path), "third_party/lib")
        inside(project, "third_party/lib").write("local.py", "local\n")

        taken = take(project)

        assert set(files(taken)) == {
            "main.py",
            "third_party/lib/lib.py",
            "third_party/lib/run.sh",
            "third_party/lib/local.py",
        }

    def test_one_without_a_commit(self, project: Project) -> None:
        project.write("main.py", "main\n")
        (project.path / "fresh").mkdir()
        fresh = inside(project, "fresh")
        fresh.git("init", "-q")
        fresh.write("a.py", "a\n")

        taken = take(project)

        assert files(taken) == {"main.py": b"main\n", "fresh/a.py": b"a\n"}

    def test_an_empty_one(self, project: Project) -> None:
        project.write("main.py", "main\n")
        (project.path / "fresh").mkdir()
        inside(project, "fresh").git("init", "-q")

        assert files(take(project)) == {"main.py": b"main\n"}

    def test_an_ignored_one_stays_here(self, project: Project, library: Project) -> None:
        project.write(".gitignore", "third_party/\n")
        project.git("clone", "-q", str(library.path), "third_party/lib")

        assert set(files(take(project))) == {".gitignore"}

    @pytest.mark.parametrize("pattern", ["third_party/**", "third_party/lib", "third_party"])
    def test_an_ignored_one_that_is_included_goes_in_by_content(
        self, project: Project, library: Project, pattern: str
    ) -> None:
        project.write(".gitignore", "third_party/\n")
        project.write("third_party/note", "note\n")
        project.git("clone", "-q", str(library.path), "third_party/lib")

        taken = take(project, include=(pattern,))

        assert files(taken)["third_party/lib/lib.py"] == b"one\n"
        assert "160000" not in modes(taken).values()

    def test_an_ignored_one_without_a_commit_can_be_included(self, project: Project) -> None:
        project.write(".gitignore", "fresh/\n")
        (project.path / "fresh").mkdir()
        fresh = inside(project, "fresh")
        fresh.git("init", "-q")
        fresh.write("a.py", "a\n")

        taken = take(project, include=("fresh/**",))

        assert files(taken)["fresh/a.py"] == b"a\n"

    def test_one_in_a_directory_with_an_odd_name(self, project: Project, library: Project) -> None:
        for name in (b"new\nline", b"\xff not utf-8", b":(glob)*", b" blank "):
            project.git("clone", "-q", str(library.path), os.fsdecode(name))

        taken = take(project)

        assert files(taken)[os.fsdecode(b"\xff not utf-8/lib.py")] == b"one\n"
        assert files(taken)["new\nline/lib.py"] == b"one\n"
        assert files(taken)[":(glob)*/lib.py"] == b"one\n"
        assert files(taken)[" blank /lib.py"] == b"one\n"

    def test_one_in_the_place_of_tracked_files(self, project: Project, library: Project) -> None:
        project.write("lib/old.py", "old\n")
        project.write("lib/lib.py", "old\n")
        project.commit()
        shutil.rmtree(project.path / "lib")
        project.git("clone", "-q", str(library.path), "lib")

        taken = take(project)

        assert set(files(taken)) == {"lib/lib.py", "lib/run.sh"}
        assert files(taken)["lib/lib.py"] == b"one\n"

    def test_one_in_the_place_of_a_tracked_file(self, project: Project, library: Project) -> None:
        project.write("lib", "a file\n")
        project.commit()
        (project.path / "lib").unlink()
        project.git("clone", "-q", str(library.path), "lib")

        assert set(files(take(project))) == {"lib/lib.py", "lib/run.sh"}

    def test_one_of_another_object_format_is_refused(self, project: Project) -> None:
        project.write("main.py", "main\n")
        (project.path / "modern").mkdir()
        modern = inside(project, "modern")
        modern.git("init", "-q", "--object-format=sha256")
        modern.write("a.py", "a\n")
        modern.commit()

        with pytest.raises(SourceError, match="`modern` names objects by sha256"):
            take(project)

    def test_a_linked_worktree_inside_the_working_copy(self, project: Project) -> None:
        project.write("main.py", "main\n")
        project.commit()
        project.git("worktree", "add", "-q", "-b", "feature", "trees/feature")
        (project.path / "trees/feature/main.py").write_text("feature\n", "utf-8")

        taken = take(project)

        assert files(taken) == {"main.py": b"main\n", "trees/feature/main.py": b"feature\n"}

    def test_its_own_large_new_files_are_guarded(self, project: Project, library: Project) -> None:
        project.git("clone", "-q", str(library.path), "lib")
        (project.path / "lib/big").write_bytes(os.urandom(2000))

        with pytest.raises(SourceError, match="big"):
            take(project, max_new_bytes=1000)

    def test_git_in_the_inner_one_is_as_it_was(self, project: Project, library: Project) -> None:
        project.git("clone", "-q", str(library.path), "lib")
        inner = project.path / "lib"
        (inner / "lib.py").write_text("changed\n", "utf-8")

        with untouched(inner):
            snapshot.take(project.path, max_new_bytes=MAX_BYTES)

        assert git(inner, "status", "--porcelain") == "M lib.py"
