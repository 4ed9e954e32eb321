"""A tree on disk and its hash: equal to git's for every tree git can make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.agent import checkout
from orchestrator.agent.blobs import BlobError
from orchestrator.agent.checkout import Entry, TreeError
from tests.agent.trees import (
    blob_hash,
    entries,
    executable,
    link,
    manifest,
    on_disk,
    stored,
    tree_hash,
)

NAMES = st.binary(min_size=1, max_size=8).filter(
    lambda name: not set(name) & {0, 0x2F} and name not in (b".", b"..")
    # What git itself refuses to have in an index, on some file system or other.
    and b"git" not in name.lower() and b"~" not in name and b"\xe2" not in name
)  # fmt: skip
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
MODES = st.sampled_from(["100644", "100755", "120000"])
TREES = st.dictionaries(PATHS, st.tuples(MODES, st.binary(max_size=10)), max_size=12)


def without_clashes(tree: dict[bytes, Any]) -> dict[bytes, Any]:
    """Drop files that would also have to be directories."""
    folders = {path[:at] for path in tree for at in range(len(path)) if path[at : at + 1] == b"/"}
    return {path: value for path, value in tree.items() if path not in folders}


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(f"repository-{request.param}")
    git(folder, "init", "-q", f"--object-format={request.param}")
    return folder, request.param


def git(folder: Path, *arguments: str, feed: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=folder, input=feed, capture_output=True, check=True, timeout=60
    ).stdout


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=TREES.map(without_clashes))
def test_the_root_hash_is_gits(repository: Any, tree: dict[bytes, tuple[str, bytes]]) -> None:
    folder, object_format = repository
    rows = [
        f"{mode} {blob_hash(body, object_format)}\t".encode() + path + b"\0"
        for path, (mode, body) in tree.items()
    ]
    git(folder, "read-tree", "--empty")
    git(folder, "update-index", "-z", "--index-info", feed=b"".join(rows))
    root = git(folder, "write-tree", "--missing-ok").decode().strip()
    listing = git(folder, "ls-tree", "-r", "-z", "--full-tree", root)

    found = checkout.entries(listing)

    assert checkout.root_hash(found, object_format) == root
    assert {entry.path: entry.mode for entry in found} == {p: m for p, (m, _) in tree.items()}


FILES = {
    "plain": b"text\n",
    "deep/er/run.sh": executable(b"#!/bin/sh\n"),
    "deep/link": link(b"../plain"),
    "deep/loop": link(b"."),
    "dangling": link(b"nowhere"),
    "empty": b"",
    "a b/\udcff\n": b"odd name\n",
    "twice": b"text\n",
}


class TestWriting:
    def write(self, tmp_path: Path, files: Any) -> int:
        store = stored(tmp_path / "blobs", files)
        top = os.fsencode(tmp_path / "tree")
        found = checkout.entries(manifest(files))
        checkout.make_folders(found, top)
        return checkout.write(store, found, top)

    def test_every_file_is_what_was_sent(self, tmp_path: Path) -> None:
        written = self.write(tmp_path, FILES)

        assert on_disk(tmp_path / "tree") == FILES
        assert written == 29

    def test_nothing_is_written_over(self, tmp_path: Path) -> None:
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree/plain").write_text("mine", "ascii")

        with pytest.raises(FileExistsError):
            self.write(tmp_path, FILES)

    def test_an_empty_tree(self, tmp_path: Path) -> None:
        assert self.write(tmp_path, {}) == 0
        assert list((tmp_path / "tree").iterdir()) == []

    @pytest.mark.parametrize(
        "target", [b"/etc/passwd", b"../..", b"../../x", b"a/../../../x", b"/", b"../../tree-2"]
    )
    def test_a_link_that_leaves_the_tree_is_refused(self, tmp_path: Path, target: bytes) -> None:
        with pytest.raises(TreeError, match="the link b'deep/out' leaves the tree"):
            self.write(
                tmp_path, {"deep/out": link(b"../" + target if target[:1] != b"/" else target)}
            )

    def test_a_damaged_blob_stops_it(self, tmp_path: Path) -> None:
        store = stored(tmp_path / "blobs", {"a": b"text"})
        pack = next(iter((tmp_path / "blobs").glob("*.pack")))
        pack.write_bytes(b"TEXT")
        (tmp_path / "tree").mkdir()

        with pytest.raises(BlobError):
            checkout.write(store, entries({"a": b"text"}), os.fsencode(tmp_path / "tree"))


class TestEntries:
    @pytest.mark.parametrize(
        "record",
        [
            b"rubbish",
            b"100644 blob " + b"a" * 40,
            b"100644 " + b"a" * 40 + b"\tpath",
            b"160000 commit " + b"a" * 40 + b"\tsubmodule",
            b"040000 tree " + b"a" * 40 + b"\tfolder",
            b"100664 blob " + b"a" * 40 + b"\tpath",
            b"\xff blob " + b"a" * 40 + b"\tpath",
        ],
    )
    def test_what_is_no_file_is_refused(self, record: bytes) -> None:
        with pytest.raises(TreeError, match="which is not a file"):
            checkout.entries(record + b"\0")

    @pytest.mark.parametrize(
        "path", [b"", b"/etc/passwd", b"../x", b"a/../../x", b"..", b"a//b", b"./a", b"a/"]
    )
    def test_what_leaves_the_tree_is_refused(self, path: bytes) -> None:
        with pytest.raises(TreeError, match="outside the tree"):
            checkout.entries(b"100644 blob " + b"a" * 40 + b"\t" + path + b"\0")

    @pytest.mark.parametrize("blob", [b"", b"a" * 39, b"A" * 40, b"g" * 40, b"../../x"])
    def test_what_is_no_hash_is_refused(self, blob: bytes) -> None:
        with pytest.raises(TreeError, match="which is not a file"):
            checkout.entries(b"100644 blob " + blob + b"\tpath\0")


class TestRootHash:
    def test_of_nothing(self) -> None:
        assert tree_hash({}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

    def test_a_file_and_a_directory_of_one_name_are_refused(self) -> None:
        for order in (("a", "a/b"), ("a/b", "a")):
            found = [Entry("100644", "0" * 40, name.encode()) for name in order]
            with pytest.raises(TreeError, match="is a file and a directory"):
                checkout.root_hash(found, "sha1")

    def test_one_path_twice_is_refused(self) -> None:
        found = [Entry("100644", "0" * 40, b"a"), Entry("100644", "1" * 40, b"a")]

        with pytest.raises(TreeError, match="stands twice"):
            checkout.root_hash(found, "sha1")

    def test_a_mode_changes_it(self) -> None:
        assert tree_hash({"a": b"x"}) != tree_hash({"a": executable(b"x")})
