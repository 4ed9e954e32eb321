"""Listings, sizes and contents of a tree, and the links that leave it."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import SourceError
from orchestrator.source import tree
from orchestrator.source.tree import Entry
from tests.conftest import Project
from tests.source.working_copy import take


class TestReadBlobs:
    def test_gives_every_content_in_the_order_asked_for(self, project: Project) -> None:
        contents = {"a": b"", "b": b"\n", "c": b"x" * 3_000_000, "d": b"no newline at the end"}
        for name, body in contents.items():
            project.write(name, body)
        taken = take(project)
        entries = {e.path: e.blob for e in tree.entries(taken.manifest)}
        order = ["c", "a", "d", "b"]

        found = [
            (blob, size, b"".join(chunks))
            for blob, size, chunks in tree.read_blobs(
                taken.repository.git, [entries[name] for name in order]
            )
        ]

        assert found == [(entries[n], len(contents[n]), contents[n]) for n in order]

    def test_a_lost_object_is_told(self, project: Project) -> None:
        taken = take(project)
        lost = "12" * 20

        with pytest.raises(SourceError, match=f"could not read the object {lost}"):
            list(tree.read_blobs(taken.repository.git, [lost]))
        with pytest.raises(SourceError, match=f"git has lost the object {lost}"):
            tree.sizes(taken.repository.git, [lost])

    def test_a_reader_may_leave_early(self, project: Project) -> None:
        for number in range(200):
            project.write(f"f{number}", bytes([number]) * 10_000)
        taken = take(project)
        blobs = [e.blob for e in tree.entries(taken.manifest)]

        reading = tree.read_blobs(taken.repository.git, blobs)
        blob, _, chunks = next(reading)
        body = b"".join(chunks)
        reading.close()

        assert blob == blobs[0]
        assert len(body) == 10_000

    def test_replacements_that_the_user_set_up_do_not_reach_the_host(
        self, project: Project
    ) -> None:
        project.write("a", "true\n")
        taken = take(project)
        blob = tree.entries(taken.manifest)[0].blob
        other = project.git("hash-object", "-w", str(project.write("b", "replaced\n")))
        project.git("replace", blob, other)

        ((_, size, body),) = [
            (b, s, b"".join(c)) for b, s, c in tree.read_blobs(taken.repository.git, [blob])
        ]

        assert (size, body) == (5, b"true\n")
        assert tree.sizes(taken.repository.git, [blob]) == {blob: 5}


class TestSizes:
    def test_of_no_blob(self, project: Project) -> None:
        assert tree.sizes(take(project).repository.git, []) == {}


class TestEntries:
    def test_reads_what_git_lists(self) -> None:
        manifest = b"100644 blob " + b"a" * 40 + b"\ta b\nc\0"
        manifest += b"120000 blob " + b"b" * 40 + b"\t\xff\0"

        assert tree.entries(manifest) == [
            Entry("100644", "a" * 40, "a b\nc"),
            Entry("120000", "b" * 40, "\udcff"),
        ]


class TestEscapes:
    @pytest.mark.parametrize("target", ["/", "/etc", "..", "../..", "a/../..", "\\\\server\\x"])
    def test_out_of_the_top(self, target: str) -> None:
        assert tree._escapes("link", target)

    @pytest.mark.parametrize("target", [".", "a", "a/..", "./a/../b", "...", "..a"])
    def test_inside(self, target: str) -> None:
        assert not tree._escapes("link", target)

    @given(
        st.lists(st.sampled_from(["a", "b", "..", "."]), max_size=6),
        st.lists(st.sampled_from(["x", "y"]), max_size=3),
    )
    def test_agrees_with_a_walk_step_by_step(self, target: list[str], folders: list[str]) -> None:
        depth = len(folders)
        left = False
        for part in target:
            depth += {"..": -1, ".": 0}.get(part, 1)
            left = left or depth < 0
        path = posixpath.join(*folders, "link")
        ends_outside = depth < 0

        assert tree._escapes(path, "/".join(target)) >= ends_outside
        assert tree._escapes(path, "/".join(target)) <= left


class TestNewBlobs:
    def test_only_contents_that_the_old_tree_did_not_have(self, project: Project) -> None:
        for name in ("kept", "edited", "moved", "gone", "odd\nname"):
            project.write(name, f"{name} first\n")
        old = take(project)
        project.write("edited", "edited second\n")
        project.write("odd\nname", "odd second\n")
        project.write("added", "added\n")
        (project.path / "kept").chmod(0o755)
        (project.path / "moved").rename(project.path / "elsewhere")
        (project.path / "gone").unlink()
        new = take(project)

        found = tree.new_blobs(new.repository.git, old.tree, new.tree)

        blobs = {entry.path: entry.blob for entry in tree.entries(new.manifest)}
        assert sorted(found) == sorted(blobs[n] for n in ("added", "edited", "odd\nname"))

    def test_nothing_without_the_old_tree(self, project: Project) -> None:
        project.write("a", "a\n")
        taken = take(project)

        assert tree.new_blobs(taken.repository.git, "12" * 20, taken.tree) == []
