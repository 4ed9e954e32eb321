"""The tree of every run, kept, compared, restored and let go."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from orchestrator.errors import InputError, SourceError
from orchestrator.source import anchor
from orchestrator.source.snapshot import Snapshot
from tests.conftest import Project
from tests.source.working_copy import files, take


def keep(project: Project, name: str) -> Snapshot:
    taken = take(project)
    anchor.keep(taken.repository, name, taken.tree)
    return taken


class TestKeep:
    def test_the_tree_outlives_the_file_and_a_collection_of_garbage(self, project: Project) -> None:
        project.write("a", "only here, never committed\n")
        taken = keep(project, "20260101-000000-exp-aaaa")
        (project.path / "a").unlink()

        project.git("gc", "-q", "--prune=now")

        assert files(taken) == {"a": b"only here, never committed\n"}
        project.git("fsck", "--full", "--strict")

    def test_runs_are_listed_with_their_trees(self, project: Project) -> None:
        project.write("a", "1\n")
        one = keep(project, "run-1")
        project.write("a", "2\n")
        two = keep(project, "run-2")

        assert anchor.kept_runs(one.repository) == {"run-1": one.tree, "run-2": two.tree}

    def test_nothing_is_listed_before_the_first_run(self, project: Project) -> None:
        assert anchor.kept_runs(take(project).repository) == {}

    def test_a_forgotten_tree_is_gone(self, project: Project) -> None:
        project.write("a", "1\n")
        taken = keep(project, "run-1")

        anchor.forget(taken.repository, "run-1")

        assert anchor.kept_runs(taken.repository) == {}
        with pytest.raises(InputError, match="neither a run nor a git revision"):
            anchor.resolve(taken.repository, "run-1")

    def test_forgetting_what_was_never_kept_is_harmless(self, project: Project) -> None:
        anchor.forget(take(project).repository, "run-1")


class TestDiff:
    def test_shows_what_changed_between_two_runs(self, project: Project) -> None:
        project.write("a", "old\n")
        project.write("tool.sh", "#!/bin/sh\n")
        taken = keep(project, "run-1")
        project.write("a", "new\n")
        project.write("ü b", "added\n")
        (project.path / "tool.sh").chmod(0o755)
        keep(project, "run-2")

        shown = anchor.diff(taken.repository, "run-1", "run-2")

        assert "-old\n+new\n" in shown
        assert "+++ b/ü b" in shown
        assert "new mode 100755" in shown

    def test_takes_revisions_and_options(self, project: Project) -> None:
        project.write("a", "old\n")
        project.commit()
        project.write("a", "new\n")
        taken = keep(project, "run-1")

        assert anchor.diff(taken.repository, "HEAD", "run-1", options=("--name-only",)) == "a\n"

    @pytest.mark.parametrize("name", ["no-such-run", "--help", "-p", "", "a..b", "HEAD:missing"])
    def test_an_unknown_name_is_refused(self, project: Project, name: str) -> None:
        project.write("a", "1\n")
        taken = keep(project, "run-1")

        with pytest.raises(InputError, match="neither a run nor a git revision"):
            anchor.diff(taken.repository, "run-1", name)


class TestRestore:
    def test_writes_the_files_byte_for_byte_as_the_host_had_them(
        self, project: Project, tmp_path: Path
    ) -> None:
        project.git("config", "core.autocrlf", "true")
        project.write(".gitattributes", "*.txt text eol=crlf\n")
        project.write("dos.txt", b"one\r\ntwo\r\n")
        project.write("bin", b"\0\xff\r\n")
        project.write("deep/er/ü\n", "odd\n")
        project.write("run.sh", "#!/bin/sh\n").chmod(0o755)
        project.write("empty", "")
        (project.path / "deep/link").symlink_to("../bin")
        taken = keep(project, "run-1")
        target = tmp_path / "back"

        count = anchor.restore(taken.repository, "run-1", target)

        assert count == 7
        found = {
            str(p.relative_to(target)): p.read_bytes()
            for p in target.rglob("*")
            if p.is_file() and not p.is_symlink()
        }
        expected = files(taken)
        assert expected.pop("deep/link") == b"../bin"
        assert found == expected
        assert (target / "deep/link").readlink() == Path("../bin")
        assert (target / "run.sh").stat().st_mode & stat.S_IXUSR
        assert not (target / "bin").stat().st_mode & stat.S_IXUSR

    def test_one_content_at_several_places(self, project: Project, tmp_path: Path) -> None:
        project.write("a", "same\n")
        project.write("b/c", "same\n")
        taken = keep(project, "run-1")

        assert anchor.restore(taken.repository, "run-1", tmp_path / "back") == 2

        assert (tmp_path / "back/b/c").read_text("utf-8") == "same\n"

    def test_names_that_are_not_utf_8(self, project: Project, tmp_path: Path) -> None:
        name = os.fsdecode(b"\xff\xfe")
        project.write(name, "x\n")
        taken = keep(project, "run-1")

        anchor.restore(taken.repository, "run-1", tmp_path / "back")

        assert (tmp_path / "back" / name).read_text("utf-8") == "x\n"

    def test_an_empty_directory_is_fine_and_another_one_is_refused(
        self, project: Project, tmp_path: Path
    ) -> None:
        project.write("a", "1\n")
        taken = keep(project, "run-1")
        target = tmp_path / "back"
        target.mkdir()
        anchor.restore(taken.repository, "run-1", target)

        with pytest.raises(InputError, match="is not empty"):
            anchor.restore(taken.repository, "run-1", target)
        with pytest.raises(InputError, match="is not empty"):
            anchor.restore(taken.repository, "run-1", target / "a")

    @pytest.mark.parametrize("name", [".git/config", ".GIT/hooks/pre-commit", "a/.git/config"])
    def test_a_tree_that_would_write_into_a_git_directory_is_refused(
        self, project: Project, tmp_path: Path, name: str
    ) -> None:
        tree = hostile_tree(project, name.encode())
        taken = take(project)

        with pytest.raises(SourceError, match="must not be written"):
            anchor.restore(taken.repository, tree, tmp_path / "back")

        assert not (tmp_path / "back").exists()

    def test_a_tree_that_leaves_its_directory_is_refused(
        self, project: Project, tmp_path: Path
    ) -> None:
        tree = hostile_tree(project, b"../evil")
        taken = take(project)

        with pytest.raises(SourceError, match="must not be written"):
            anchor.restore(taken.repository, tree, tmp_path / "back")

    def test_a_revision_with_a_submodule_says_what_is_missing(
        self, project: Project, tmp_path: Path
    ) -> None:
        project.write("a", "1\n")
        commit = project.commit()
        project.git("update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
        project.git("commit", "-q", "-m", "with a submodule")
        taken = take(project)

        with pytest.raises(SourceError, match="`sub` is a submodule"):
            anchor.restore(taken.repository, "HEAD", tmp_path / "back")


def hostile_tree(project: Project, path: bytes) -> str:
    """A tree with a path that git itself would not add."""
    *folders, name = path.split(b"/")
    blob = project.git("hash-object", "-w", str(project.write("evil", "evil\n")))
    kind, mode, digest = "blob", b"100644", blob
    for part in reversed([*folders, name]):
        body = mode + b" " + part + b"\0" + bytes.fromhex(digest)
        digest = (
            subprocess.run(
                ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"],
                cwd=project.path,
                input=body,
                capture_output=True,
                check=True,
                timeout=60,
            )
            .stdout.decode()
            .strip()
        )
        kind, mode = "tree", b"40000"
    assert kind == "tree"
    return digest
