"""The working copy as one exact tree: real git, nothing of the user's touched."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import snapshot
from tests.conftest import Project, git
from tests.source.working_copy import MAX_BYTES, files, modes, take, untouched

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


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


ODD_NAMES = [
    b" leading and trailing ",
    b"two  blanks",
    b"quo'te",
    b'double"quote',
    b"back\\slash",
    b"new\nline",
    b"tab\t",
    b"carriage\rreturn",
    b"\xc3\xbcml\xc3\xa4ut",
    b"u\xcc\x88 decomposed",
    b"\xff\xfe not utf-8",
    b"\xe2\x80\xa8 line separator",
    b"\xc2\x85 next line",
    b"-dash",
    b":(top)magic",
    b"star*",
    b"[brackets]",
    b"$HOME",
    b"#hash",
    b"!bang",
    b"~tilde",
]


class TestOddNames:
    def test_every_name_travels_as_it_is(self, project: Project) -> None:
        for number, name in enumerate(ODD_NAMES):
            project.write(os.fsdecode(name), f"{number}\n")

        taken = take(project)

        assert files(taken) == {
            os.fsdecode(name): b"%d\n" % number for number, name in enumerate(ODD_NAMES)
        }

    def test_changed_and_deleted_ones_too(self, project: Project) -> None:
        for name in ODD_NAMES:
            (project.path / os.fsdecode(name)).write_text("old\n", "ascii")
        project.commit()
        for name in ODD_NAMES[::2]:
            (project.path / os.fsdecode(name)).write_text("new\n", "ascii")
        for name in ODD_NAMES[1::2]:
            (project.path / os.fsdecode(name)).unlink()

        taken = take(project)

        assert files(taken) == {os.fsdecode(name): b"new\n" for name in ODD_NAMES[::2]}

    def test_odd_names_can_be_included(self, project: Project) -> None:
        project.write(".gitignore", "odd/\n")
        for name in ODD_NAMES:
            project.write("odd/" + os.fsdecode(name), "x\n")

        taken = take(project, include=("odd/**",))

        expected = {"odd/" + os.fsdecode(name) for name in ODD_NAMES}
        assert set(files(taken)) == {".gitignore", *expected}


class TestLineEndings:
    def test_auto_crlf_sends_lf(self, project: Project) -> None:
        project.git("config", "core.autocrlf", "true")
        project.write("script.sh", b"#!/bin/sh\r\necho hi\r\n")

        taken = take(project)

        assert files(taken) == {"script.sh": b"#!/bin/sh\necho hi\n"}

    def test_attributes_decide_file_by_file(self, project: Project) -> None:
        project.write(
            ".gitattributes", "*.sh text eol=lf\n*.bat text eol=crlf\n*.raw -text\n*.bin binary\n"
        )
        for name in ("a.sh", "b.bat", "c.raw", "d.bin", "e.other"):
            project.write(name, b"one\r\ntwo\r\n")

        taken = take(project)

        lf, crlf = b"one\ntwo\n", b"one\r\ntwo\r\n"
        found = files(taken)
        assert (found["a.sh"], found["b.bat"]) == (lf, lf)
        assert (found["c.raw"], found["d.bin"], found["e.other"]) == (crlf, crlf, crlf)

    def test_safecrlf_does_not_stop_it(self, project: Project) -> None:
        project.git("config", "core.autocrlf", "true")
        project.git("config", "core.safecrlf", "true")
        project.write("mixed.txt", b"one\r\ntwo\n")

        taken = take(project)

        assert files(taken) == {"mixed.txt": b"one\ntwo\n"}


class TestLinks:
    def test_links_inside_the_tree_are_kept_as_links(self, project: Project) -> None:
        project.write("a/b/file", "x\n")
        (project.path / "a/up").symlink_to("../a/b")
        (project.path / "loop").symlink_to(".")
        (project.path / "a/b/dangling").symlink_to("nowhere")

        taken = take(project)

        assert modes(taken)["a/up"] == "120000"
        assert files(taken)["a/up"] == b"../a/b"
        assert files(taken)["loop"] == b"."
        assert files(taken)["a/b/dangling"] == b"nowhere"

    @pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "a/../../outside", ".."])
    def test_links_that_leave_it_are_refused_by_name(self, project: Project, target: str) -> None:
        project.write("a/file", "x\n")
        (project.path / "way out").symlink_to(target)

        with pytest.raises(SourceError, match="`way out` -> `" + target) as caught:
            take(project)

        assert ".gitignore" in caught.value.fix

    def test_a_link_below_the_top_may_go_up_as_far_as_the_top(self, project: Project) -> None:
        project.write("file", "x\n")
        project.write("a/b/c", "y\n")
        (project.path / "a/b/up").symlink_to("../../file")

        taken = take(project)

        assert files(taken)["a/b/up"] == b"../../file"

    def test_the_first_five_are_named_and_the_others_counted(self, project: Project) -> None:
        for number in range(7):
            (project.path / f"link{number}").symlink_to("/etc")

        with pytest.raises(SourceError, match="and 2 more"):
            take(project)

    def test_a_link_becomes_a_file(self, project: Project) -> None:
        (project.path / "x").symlink_to("y")
        project.write("y", "y\n")
        project.commit()
        (project.path / "x").unlink()
        project.write("x", "a file\n")

        taken = take(project)

        assert files(taken)["x"] == b"a file\n"
        assert modes(taken)["x"] == "100644"


class TestGitLfs:
    """git-lfs is not installed here: attributes and files are all it takes."""

    def test_files_go_in_by_content(self, project: Project) -> None:
        project.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
        project.write("model.bin", b"\0weights\r\n")

        taken = take(project)

        assert files(taken)["model.bin"] == b"\0weights\r\n"

    def test_an_unchanged_file_whose_pointer_is_in_the_index(self, project: Project) -> None:
        project.write(".gitattributes", "*.bin filter=lfs -text\n")
        project.write("model.bin", POINTER)
        project.git("config", "filter.lfs.clean", f"printf '%s' '{POINTER.decode()}'")
        project.git("config", "filter.lfs.required", "true")
        project.write("model.bin", b"\0weights")
        project.commit()
        assert project.git("status", "--porcelain") == ""
        assert project.git("cat-file", "blob", "HEAD:model.bin").startswith("version")

        taken = take(project)

        assert files(taken)["model.bin"] == b"\0weights"
        assert not taken.code.dirty

    def test_a_pointer_is_refused(self, project: Project) -> None:
        project.write(".gitattributes", "*.bin filter=lfs -text\n")
        project.write("deep/model.bin", POINTER)

        with pytest.raises(
            SourceError, match=r"`deep/model.bin`: only a pointer is here"
        ) as caught:
            take(project)

        assert caught.value.fix == "git lfs pull"

    def test_a_text_like_a_pointer_is_a_text_like_any_other(self, project: Project) -> None:
        project.write("fixture.txt", POINTER)

        assert files(take(project)) == {"fixture.txt": POINTER}

    def test_a_broken_filter_of_the_user_does_not_matter(self, project: Project) -> None:
        project.git("config", "filter.lfs.process", "false")
        project.git("config", "filter.lfs.clean", "false")
        project.git("config", "filter.lfs.required", "true")
        project.write(".gitattributes", "*.bin filter=lfs -text\n")
        project.write("model.bin", b"weights")

        taken = take(project)

        assert files(taken)["model.bin"] == b"weights"


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
