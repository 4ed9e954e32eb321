"""The working copy as one exact tree: real git, nothing of the user's touched."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import snapshot
from tests.conftest import Project
from tests.source.working_copy import MAX_BYTES, files, modes, take, untouched


class TestChanges:
    def test_takes_what_lies_there_not_what_was_committed(self, project: Project) -> None:
        project.write("kept", "same\n")
        project.write("edited", "old\n")
        project.write("deleted", "gone\n")
        project.write("before", "moved\n")
        project.write("folder/deep/in", "deep\n")
        project.commit()
        project.write("edited", "new\n")
        project.write("added/here", "added\n")
        (project.path / "deleted").unlink()
        (project.path / "before").rename(project.path / "after")

        taken = take(project)

        assert files(taken) == {
            "kept": b"same\n",
            "edited": b"new\n",
            "added/here": b"added\n",
            "after": b"moved\n",
            "folder/deep/in": b"deep\n",
        }

    def test_is_the_tree_that_git_itself_would_commit(self, project: Project) -> None:
        project.write("a", "1\n")
        project.write("b/c", "2\n")
        project.commit()
        project.write("b/d", "3\n")
        (project.path / "a").chmod(0o755)

        taken = take(project)

        project.commit()
        assert taken.tree == project.git("rev-parse", "HEAD^{tree}")

    def test_takes_staged_changes_and_those_on_top_of_them(self, project: Project) -> None:
        project.write("a", "committed\n")
        project.commit()
        project.write("a", "staged\n")
        project.write("b", "staged\n")
        project.git("add", "-A")
        project.write("a", "on top\n")

        taken = take(project)

        assert files(taken) == {"a": b"on top\n", "b": b"staged\n"}

    def test_takes_the_executable_bit(self, project: Project) -> None:
        project.write("now.sh", "#!/bin/sh\n")
        project.write("no-more.sh", "#!/bin/sh\n").chmod(0o755)
        project.commit()
        (project.path / "now.sh").chmod(0o755)
        (project.path / "no-more.sh").chmod(0o644)

        taken = take(project)

        assert modes(taken) == {"now.sh": "100755", "no-more.sh": "100644"}

    def test_takes_modes_from_the_index_where_the_file_system_has_none(
        self, project: Project
    ) -> None:
        project.git("config", "core.fileMode", "false")
        project.write("tool.sh", "#!/bin/sh\n")
        project.git("add", "-A")
        project.git("update-index", "--chmod=+x", "tool.sh")
        project.write("tool.sh", "#!/bin/sh\necho changed\n")

        taken = take(project)

        assert modes(taken) == {"tool.sh": "100755"}

    def test_a_file_becomes_a_directory_and_the_other_way_round(self, project: Project) -> None:
        project.write("file", "x\n")
        project.write("folder/in", "y\n")
        project.commit()
        (project.path / "file").unlink()
        project.write("file/in", "x\n")
        shutil.rmtree(project.path / "folder")
        project.write("folder", "y\n")

        taken = take(project)

        assert files(taken) == {"file/in": b"x\n", "folder": b"y\n"}

    def test_an_edit_of_the_same_size_within_one_clock_tick_is_seen(self, project: Project) -> None:
        path = project.write("a", "one\n")
        project.commit()
        facts = path.stat()
        path.write_text("two\n", "utf-8")
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

        taken = take(project)

        assert files(taken) == {"a": b"two\n"}

    def test_works_from_a_directory_below_the_top(self, project: Project) -> None:
        project.write("a", "1\n")
        project.write("b/c", "2\n")

        taken = snapshot.take(project.path / "b", max_new_bytes=MAX_BYTES)

        assert set(files(taken)) == {"a", "b/c"}

    def test_the_code_says_where_it_stands(self, project: Project) -> None:
        project.write("a", "1\n")
        revision = project.commit()
        project.git("remote", "add", "origin", "https://me:secret@example.com/p.git")
        project.write("a", "2\n")
        project.write("b", "3\n")

        code = take(project).code

        assert code.as_json() == {
            "revision": revision,
            "branch": "main",
            "dirty": True,
            "changed": 1,
            "untracked": 1,
            "in_progress": "",
            "remote": "https://example.com/p.git",
            "submodules": {},
        }

    def test_a_clean_working_copy_is_the_tree_of_its_commit(self, project: Project) -> None:
        project.write("a", "1\n")
        project.commit()

        taken = take(project)

        assert taken.tree == project.git("rev-parse", "HEAD^{tree}")
        assert not taken.code.dirty


class TestWhatIsTheUsers:
    def test_the_stash_stays(self, project: Project) -> None:
        project.write("a", "1\n")
        project.commit()
        project.write("a", "stashed\n")
        project.git("stash")
        project.write("a", "2\n")

        take(project)

        assert project.git("stash", "list").count("\n") == 0
        assert "stashed" in project.git("stash", "show", "-p")

    def test_no_file_of_ours_is_left_in_the_git_directory_after_a_failure(
        self, project: Project
    ) -> None:
        project.write("a", "1\n")
        (project.path / "out").symlink_to("/etc")

        with untouched(project.path), pytest.raises(SourceError):
            snapshot.take(project.path, max_new_bytes=MAX_BYTES)

        assert [p.name for p in (project.path / ".git").glob("*orch*")] == []

    def test_a_git_directory_that_cannot_be_written_is_told(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def read_only(**_: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(tempfile, "mkstemp", read_only)

        with pytest.raises(SourceError, match=r"cannot write into .*\.git: Read-only"):
            take(project)

    def test_git_finds_nothing_wrong_afterwards(self, project: Project) -> None:
        project.write("a", "1\n")
        project.commit()
        project.write("a", "2\n")
        project.write("b/ü", "3\n")

        take(project)

        assert "error" not in project.git("fsck", "--strict")
        assert "missing" not in project.git("fsck", "--full")
