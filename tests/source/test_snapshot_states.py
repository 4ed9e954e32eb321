"""A snapshot of a repository in every state that git knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator.source import snapshot
from tests.conftest import Project, git
from tests.source.working_copy import MAX_BYTES, files, take, untouched


class TestStatesOfTheRepository:
    def test_no_commit_yet(self, project: Project) -> None:
        project.write("a", "1\n")

        taken = take(project)

        assert files(taken) == {"a": b"1\n"}
        assert taken.code.revision == ""
        assert taken.code.branch == "main"

    def test_nothing_at_all(self, project: Project) -> None:
        taken = take(project)

        assert taken.manifest == b""
        assert taken.tree == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

    def test_a_detached_head(self, project: Project) -> None:
        project.write("a", "1\n")
        project.commit()
        project.git("checkout", "-q", "--detach")

        assert take(project).code.branch == ""

    def test_a_merge_with_conflicts_goes_as_the_files_are(self, project: Project) -> None:
        conflict(project)
        merge = project.path / "a"
        assert "<<<<<<<" in merge.read_text("utf-8")

        taken = take(project)

        assert files(taken)["a"] == merge.read_bytes()
        assert taken.code.in_progress == "merge"
        assert taken.code.dirty

    def test_a_rebase_in_progress(self, project: Project) -> None:
        project.write("a", "base\n")
        project.commit()
        project.git("checkout", "-q", "-b", "side")
        project.write("a", "side\n")
        project.commit()
        project.git("checkout", "-q", "main")
        project.write("a", "main\n")
        project.commit()
        project.git("checkout", "-q", "side")
        with pytest.raises(Exception, match="rebase"):
            project.git("rebase", "main")

        taken = take(project)

        assert taken.code.in_progress == "rebase"
        assert b"<<<<<<<" in files(taken)["a"]

    def test_a_linked_worktree(self, project: Project) -> None:
        project.write("a", "1\n")
        project.commit()
        other = project.home / "linked tree"
        project.git("worktree", "add", "-q", "-b", "feature", str(other))
        (other / "a").write_text("linked\n", "utf-8")

        with untouched(other), untouched(project.path):
            taken = snapshot.take(other, max_new_bytes=MAX_BYTES)

        assert files(taken) == {"a": b"linked\n"}
        assert taken.code.branch == "feature"

    def test_a_split_index(self, project: Project) -> None:
        for number in range(30):
            project.write(f"f{number}", "x\n")
        project.commit()
        project.git("update-index", "--split-index")
        project.git("config", "core.splitIndex", "true")
        project.write("f0", "changed\n")
        project.git("add", "f0")
        # So many new ones that git would begin a new shared part.
        for number in range(40):
            project.write(f"new{number}", f"{number}\n")
        assert list((project.path / ".git").glob("sharedindex.*"))

        taken = take(project)

        assert files(taken)["f0"] == b"changed\n"
        assert files(taken)["new39"] == b"39\n"
        assert len(files(taken)) == 70

    def test_a_sha256_repository(self, project: Project) -> None:
        shutil.rmtree(project.path / ".git")
        project.git("init", "-q", "--object-format=sha256")
        project.write("a", "1\n")

        taken = take(project)

        assert len(taken.tree) == 64
        assert taken.repository.object_format == "sha256"
        assert files(taken) == {"a": b"1\n"}

    def test_a_hook_that_set_git_variables(
        self, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        other = tmp_path / "other"
        other.mkdir()
        git(other, "init", "-q")
        project.write("a", "1\n")
        project.commit()
        project.write("b", "2\n")
        (project.path / "link").symlink_to("a")
        monkeypatch.setenv("GIT_DIR", str(other / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(other))
        monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
        monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git/objects"))
        monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")

        taken = snapshot.take(project.path, max_new_bytes=MAX_BYTES)

        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
            monkeypatch.delenv(name)
        assert files(taken) == {"a": b"1\n", "b": b"2\n", "link": b"a"}


def conflict(project: Project) -> None:
    """Leave the project in the middle of a merge that did not go well."""
    project.write("a", "base\n")
    project.commit()
    project.git("checkout", "-q", "-b", "side")
    project.write("a", "side\n")
    project.commit()
    project.git("checkout", "-q", "main")
    project.write("a", "main\n")
    project.commit()
    with pytest.raises(Exception, match="merge"):
        project.git("merge", "side")
