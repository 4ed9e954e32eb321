"""Blobs on their way: any cut, both encodings, and nothing that was not announced."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.agent import parcels
from orchestrator.agent.blobs import BlobError, BlobStore
from orchestrator.agent.launch import Refusal
from tests.agent.controller import parcel
from tests.agent.trees import blob_hash

BODIES = [b"", b"one", b"x" * 3_000_000]
MISSING = [blob_hash(body) for body in BODIES]


def cut(raw: bytes, step: int) -> Iterator[bytes]:
    return (raw[start : start + step] for start in range(0, len(raw), step))


def receive(
    folder: Path, raw: bytes, *, step: int = 1000, missing: list[str] = MISSING
) -> BlobStore:
    store = BlobStore(str(folder), "sha1")
    with store.receive("pack") as pack:
        for _ in parcels.receive(cut(raw, step), pack, missing):
            continue
    return store


@pytest.mark.parametrize("step", [7, 1000, 10_000_000])
@pytest.mark.parametrize("loose", [False, True])
def test_blobs_come_whole_however_they_are_cut(tmp_path: Path, step: int, loose: bool) -> None:
    order = [2, 0, 1]
    raw = b"".join(parcel(index, BODIES[index], loose=loose) for index in order)

    store = receive(tmp_path, raw, step=step)

    assert [store.read(blob) for blob in MISSING] == BODIES


def test_an_object_that_inflates_to_more_than_its_size_is_stopped_early(tmp_path: Path) -> None:
    bomb = zlib.compress(b"blob 3\0" + bytes(200_000_000))
    raw = struct.pack("!IBQQ", 1, 1, len(bomb), 3) + bomb

    with pytest.raises(BlobError, match="inflates to more than its size"):
        receive(tmp_path, raw)

    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5_000_000


@pytest.mark.parametrize(
    "sent", [b"not deflated", zlib.compress(b"tree 3\0one"), zlib.compress(b"blob 4\0one!")]
)
def test_what_is_no_loose_object_of_that_size_is_refused(tmp_path: Path, sent: bytes) -> None:
    with pytest.raises(BlobError):
        receive(tmp_path, struct.pack("!IBQQ", 1, 1, len(sent), 3) + sent)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (parcel(7, b"one"), "not_asked_for"),
        (parcel(1, b"one") * 2, "not_asked_for"),
        (struct.pack("!IBQQ", 1, 9, 3, 3) + b"one", "not_asked_for"),
        (parcel(1, b"one"), "cut_short"),
        (parcel(1, b"one")[:-1], "cut_short"),
        (b"".join(map(parcel, range(3), BODIES)) + b"!", "too_much"),
    ],
)
def test_other_parcels_than_announced_are_refused(tmp_path: Path, raw: bytes, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        receive(tmp_path, raw)

    assert caught.value.code == code


def test_what_came_before_the_trouble_is_kept(tmp_path: Path) -> None:
    raw = parcel(1, b"one") + parcel(0, b"", loose=True) + parcel(2, b"short")

    with pytest.raises(BlobError):
        receive(tmp_path, raw)

    assert BlobStore(str(tmp_path), "sha1").missing(MISSING) == [MISSING[2]]
