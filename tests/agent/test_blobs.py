"""Packs of file contents: verified on the way in and out, healed when damaged."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.agent import blobs
from orchestrator.agent.blobs import BlobError, BlobStore
from tests.agent.trees import blob_hash, stored

BODIES = {"a": b"first\n", "b": b"", "c": bytes(range(256)) * 5000}


def reopened(folder: Path, object_format: str = "sha1") -> BlobStore:
    return BlobStore(str(folder), object_format)


class TestReceiving:
    @pytest.mark.parametrize("object_format", ["sha1", "sha256"])
    def test_what_was_received_is_there_for_the_next_run(
        self, tmp_path: Path, object_format: str
    ) -> None:
        stored(tmp_path, BODIES, object_format=object_format)

        again = reopened(tmp_path, object_format)

        for body in BODIES.values():
            assert again.read(blob_hash(body, object_format)) == body
            assert again.size(blob_hash(body, object_format)) == len(body)

    def test_can_be_read_before_the_pack_is_whole(self, tmp_path: Path) -> None:
        store = reopened(tmp_path)
        with store.receive("pack") as pack:
            pack.add(blob_hash(b"x"), 1, [b"x"])

            assert store.read(blob_hash(b"x")) == b"x"

    @given(st.lists(st.binary(max_size=50), max_size=6), st.integers(1, 7))
    @settings(max_examples=50)
    def test_pieces_of_any_size_give_the_same_blobs(
        self, tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], bite: int
    ) -> None:
        folder = tmp_path_factory.mktemp("blobs")
        with reopened(folder).receive("pack") as pack:
            for body in contents:
                pieces = [body[start : start + bite] for start in range(0, len(body), bite)]
                pack.add(blob_hash(body), len(body), pieces)

        again = reopened(folder)
        assert [again.read(blob_hash(body)) for body in contents] == contents

    @pytest.mark.parametrize(
        ("announced", "size", "sent"),
        [
            (b"right", 5, [b"wrong"]),
            (b"right", 5, [b"righ"]),
            (b"right", 5, [b"right", b"!"]),
            (b"right", 4, [b"right"]),
            (b"", 0, [b"x"]),
        ],
    )
    def test_bytes_that_are_not_what_was_announced_are_not_kept(
        self, tmp_path: Path, announced: bytes, size: int, sent: list[bytes]
    ) -> None:
        store = reopened(tmp_path)

        with pytest.raises(BlobError, match="have another hash"), store.receive("pack") as pack:
            pack.add(blob_hash(announced), size, sent)

        assert store.missing([blob_hash(announced)]) == [blob_hash(announced)]
        assert reopened(tmp_path).missing([blob_hash(announced)]) == [blob_hash(announced)]

    def test_a_blob_behind_a_refused_one_is_read_from_its_own_place(self, tmp_path: Path) -> None:
        store = reopened(tmp_path)
        with store.receive("pack") as pack:
            with pytest.raises(BlobError):
                pack.add(blob_hash(b"right"), 5, [b"wrong and long"])
            pack.add(blob_hash(b"next"), 4, [b"next"])

        assert reopened(tmp_path).read(blob_hash(b"next")) == b"next"

    def test_what_came_before_the_cut_is_not_sent_again(self, tmp_path: Path) -> None:
        hashes = [blob_hash(body) for body in (b"one", b"two")]

        def pieces_until_the_link_breaks() -> Iterator[bytes]:
            yield b"tw"
            raise ConnectionError

        def receive() -> None:
            with reopened(tmp_path).receive("pack") as pack:
                pack.add(hashes[0], 3, [b"one"])
                pack.add(hashes[1], 3, pieces_until_the_link_breaks())

        with pytest.raises(ConnectionError):
            receive()

        assert reopened(tmp_path).missing(hashes) == [hashes[1]]

    def test_a_pack_without_a_blob_leaves_nothing(self, tmp_path: Path) -> None:
        with reopened(tmp_path).receive("pack"):
            pass

        assert list(tmp_path.iterdir()) == []


class TestMissing:
    def test_each_once_in_the_order_asked_for(self, tmp_path: Path) -> None:
        store = stored(tmp_path, {"x": b"x"})

        assert store.missing(["c" * 40, blob_hash(b"x"), "a" * 40, "c" * 40]) == [
            "c" * 40,
            "a" * 40,
        ]

    def test_the_other_object_format_is_another_store(self, tmp_path: Path) -> None:
        stored(tmp_path, {"x": b"x"})

        other = reopened(tmp_path, "sha256")

        assert other.missing([blob_hash(b"x", "sha256")]) == [blob_hash(b"x", "sha256")]


class TestDamage:
    def damage(self, folder: Path, place: int) -> None:
        (pack,) = folder.glob("*.pack")
        raw = bytearray(pack.read_bytes())
        raw[place] ^= 1
        pack.write_bytes(bytes(raw))

    def test_a_changed_byte_is_seen_and_the_blob_is_fetched_anew(self, tmp_path: Path) -> None:
        stored(tmp_path, {"a": b"first", "b": b"second"})
        self.damage(tmp_path, 7)
        store = reopened(tmp_path)

        with pytest.raises(BlobError, match="is damaged and was removed; run again"):
            store.read(blob_hash(b"second"))

        for look in (store, reopened(tmp_path)):
            assert look.missing([blob_hash(b"second")]) == [blob_hash(b"second")]
            assert look.read(blob_hash(b"first")) == b"first"

    def test_a_pack_that_was_cut(self, tmp_path: Path) -> None:
        stored(tmp_path, {"a": b"first", "b": b"second"})
        (pack,) = tmp_path.glob("*.pack")
        pack.write_bytes(pack.read_bytes()[:6])
        store = reopened(tmp_path)

        assert store.read(blob_hash(b"first")) == b"first"
        with pytest.raises(BlobError):
            store.read(blob_hash(b"second"))

    def test_a_pack_that_is_gone(self, tmp_path: Path) -> None:
        stored(tmp_path, {"a": b"first"})
        next(iter(tmp_path.glob("*.pack"))).unlink()
        store = reopened(tmp_path)

        with pytest.raises(BlobError, match="run again"):
            store.read(blob_hash(b"first"))

        assert reopened(tmp_path).missing([blob_hash(b"first")]) == [blob_hash(b"first")]

    @pytest.mark.parametrize("cut", [1, 10, 36])
    def test_an_index_that_was_cut_loses_its_last_row_only(self, tmp_path: Path, cut: int) -> None:
        stored(tmp_path, {"a": b"first", "b": b"second"})
        (index,) = tmp_path.glob("*.index")
        index.write_bytes(index.read_bytes()[:-cut])

        store = reopened(tmp_path)

        assert store.read(blob_hash(b"first")) == b"first"
        assert store.missing([blob_hash(b"second")]) == [blob_hash(b"second")]

    def test_two_threads_that_meet_damage_forget_both_blobs(self, tmp_path: Path) -> None:
        contents = {str(n): b"content %d" % n for n in range(50)}
        stored(tmp_path, contents)
        (pack,) = tmp_path.glob("*.pack")
        pack.write_bytes(b"\0" * pack.stat().st_size)
        store = reopened(tmp_path)
        hashes = [blob_hash(body) for body in contents.values()]
        told: list[str] = []

        def read(some: list[str]) -> None:
            for one in some:
                try:
                    store.read(one)
                except BlobError:
                    told.append(one)

        threads = [threading.Thread(target=read, args=(hashes[n::2],)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        assert sorted(told) == sorted(hashes)
        assert reopened(tmp_path).missing(hashes) == hashes


class TestCopyOut:
    def test_writes_a_new_file_with_its_mode(self, tmp_path: Path) -> None:
        store = stored(tmp_path / "blobs", BODIES)

        size = store.copy_out(blob_hash(BODIES["c"]), str(tmp_path / "out"), 0o755)

        assert size == len(BODIES["c"])
        assert (tmp_path / "out").read_bytes() == BODIES["c"]
        assert (tmp_path / "out").stat().st_mode & 0o100

    def test_writes_over_nothing(self, tmp_path: Path) -> None:
        store = stored(tmp_path / "blobs", BODIES)
        (tmp_path / "out").symlink_to("elsewhere")

        with pytest.raises(FileExistsError):
            store.copy_out(blob_hash(BODIES["a"]), str(tmp_path / "out"), 0o644)

        assert not (tmp_path / "elsewhere").exists()


class TestPacks:
    def test_reading_marks_a_pack_as_used(self, tmp_path: Path) -> None:
        store = stored(tmp_path, BODIES)
        (pack,) = tmp_path.glob("*.pack")
        os.utime(pack, (1, 1))

        store.close()
        assert pack.stat().st_mtime == 1
        store.read(blob_hash(BODIES["a"]))
        store.close()

        assert pack.stat().st_mtime > 1

    def test_are_listed_with_their_blobs(self, tmp_path: Path) -> None:
        stored(tmp_path, {"x": b"x"}, "one")
        stored(tmp_path, {"y": b"yy"}, "two", "sha256")

        found = {name: (size, inside) for _, size, name, inside in blobs.packs(str(tmp_path))}

        assert found == {
            "one.sha1": (1, {blob_hash(b"x")}),
            "two.sha256": (2, {blob_hash(b"yy", "sha256")}),
        }
