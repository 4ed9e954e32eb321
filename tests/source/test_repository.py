"""Where the working copy is, and what to do when there is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import repository
from tests.conftest import Project, git


class TestFind:
    def test_from_a_directory_below_the_top(self, project: Project) -> None:
        project.write("a/b/c", "x\n")

        found = repository.find(project.path / "a/b")

        assert found.top == project.path.resolve()
        assert found.git_dir == project.path.resolve() / ".git"
        assert found.object_format == "sha1"

    def test_through_a_link(self, project: Project, tmp_path: Path) -> None:
        project.write("a/x", "x\n")
        (tmp_path / "link").symlink_to(project.path / "a")

        assert repository.find(tmp_path / "link").top == project.path.resolve()

    @pytest.mark.parametrize(
        "name", [b"new\nline", b"\xff\xfe", b"\xc2\x85", b"\xe2\x80\xa8", b" blank ", b"-dash"]
    )
    def test_in_a_directory_with_an_odd_name(self, tmp_path: Path, home: Path, name: bytes) -> None:
        top = tmp_path / os.fsdecode(name)
        (top / "inner").mkdir(parents=True)
        git(top, "init", "-q")

        found = repository.find(top / "inner")

        assert found.top == top.resolve()
        assert found.git_dir == top.resolve() / ".git"

    def test_no_repository(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="is not in a git working copy") as caught:
            repository.find(tmp_path)

        assert "git init" in caught.value.fix

    def test_no_such_directory(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="no directory"):
            repository.find(tmp_path / "nowhere")

    def test_a_bare_repository(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "-q", "--bare", "bare.git")

        with pytest.raises(SourceError, match="is a bare repository") as caught:
            repository.find(tmp_path / "bare.git")

        assert "git worktree add" in caught.value.fix

    def test_inside_the_git_directory(self, project: Project) -> None:
        with pytest.raises(SourceError, match=r"is inside a \.git directory"):
            repository.find(project.path / ".git" / "refs")

    def test_a_worktree_of_a_bare_repository_works(self, project: Project, tmp_path: Path) -> None:
        project.write("a", "1\n")
        project.commit()
        git(tmp_path, "clone", "-q", "--bare", str(project.path), "bare.git")
        git(tmp_path / "bare.git", "worktree", "add", "-q", "../checkout", "main")

        found = repository.find(tmp_path / "checkout")

        assert found.top == (tmp_path / "checkout").resolve()

    def test_a_broken_repository_is_told_in_gits_own_words(self, project: Project) -> None:
        (project.path / ".git" / "HEAD").write_text("rubbish\n", "ascii")

        with pytest.raises(SourceError, match="is not in a git working copy"):
            repository.find(project.path)

    def test_a_linked_worktree_whose_repository_is_gone(
        self, project: Project, tmp_path: Path
    ) -> None:
        project.commit()
        project.git("worktree", "add", "-q", str(tmp_path / "linked"))
        shutil.rmtree(project.path / ".git")

        with pytest.raises(SourceError, match=r"not a git repository: .*worktrees/linked"):
            repository.find(tmp_path / "linked")


class TestStatus:
    def test_renames_are_an_old_and_a_new_path(self, project: Project) -> None:
        project.write("a b", "some content\n")
        project.commit()
        project.git("mv", "a b", "c d")

        found = repository.status(repository.find(project.path))

        assert found.changed == ("a b", "c d")
        assert found.untracked == ()

    def test_the_users_own_settings_do_not_hide_files(self, project: Project) -> None:
        project.git("config", "status.showUntrackedFiles", "no")
        project.git("config", "status.relativePaths", "true")
        project.git("config", "status.renames", "copies")
        project.git("config", "color.status", "always")
        project.write("a/b", "1\n")

        found = repository.status(repository.find(project.path))

        assert found.untracked == ("a/b",)

    def test_before_the_first_commit_there_is_a_branch_and_no_revision(
        self, project: Project
    ) -> None:
        found = repository.status(repository.find(project.path))

        assert (found.revision, found.branch) == ("", "main")
        assert not found.dirty


class TestInProgress:
    @pytest.mark.parametrize(
        ("name", "word"),
        [("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")],
    )
    def test_says_what_is_half_done(self, project: Project, name: str, word: str) -> None:
        assert repository.find(project.path).in_progress == ""

        project.write(f".git/{name}", "0" * 40)

        assert repository.find(project.path).in_progress == word


class TestRemoteUrl:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("https://user:token@example.com/a.git", "https://example.com/a.git"),
            ("https://token@example.com/a.git", "https://example.com/a.git"),
            ("https://us%40er:t@example.com/a@b.git", "https://example.com/a@b.git"),
            ("git@example.com:a/b.git", "git@example.com:a/b.git"),
            ("/some/where/a.git", "/some/where/a.git"),
        ],
    )
    def test_shows_no_credentials(self, project: Project, url: str, shown: str) -> None:
        project.git("remote", "add", "origin", url)

        assert repository.remote_url(repository.find(project.path)) == shown

    def test_is_empty_without_a_remote(self, project: Project) -> None:
        assert repository.remote_url(repository.find(project.path)) == ""
