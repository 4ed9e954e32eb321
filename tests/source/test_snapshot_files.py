"""Every name and every kind of file, as a snapshot takes it."""

from __future__ import annotations

import os

import pytest

from orchestrator.errors import SourceError
from tests.conftest import Project
from tests.source.working_copy import POINTER, files, modes, take

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
