"""Files that make a reader hang, grow or crash end one process and one pair, and nothing else."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import sys
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from orchestrator.diff import rules
from orchestrator.diff.blob import Blob
from orchestrator.diff.confined import Confined
from orchestrator.diff.limits import Limits
from orchestrator.diff.record import Record
from tests.diff import makers
from tests.diff.conftest import write

GOOD = makers.npy(np.ones(4, "f4"))


def run(confined: Confined, folder: Path, a: bytes, b: bytes, name: str, **rule: Any) -> Record:
    chosen = rules.EVERYTHING.model_copy(update=rule)
    return confined.compare(name, write(folder / "a", a), write(folder / "b", b), chosen)


def still_works(confined: Confined, folder: Path) -> bool:
    record = run(confined, folder, GOOD, makers.npy(np.zeros(4, "f4")), "x.npy")
    return record.status == "different" and record.metrics["outside"] == 4


def test_a_pair_beyond_its_deadline_is_skipped_and_its_process_killed(tmp_path: Path) -> None:
    with Confined(Limits(deadline_s=1.0)) as confined:
        # A pattern that backtracks for longer than anyone waits.
        slow = run(
            confined, tmp_path, b"a" * 40 + b"!\n", b"a" * 41 + b"!\n", "x.log", masks=("(a+)+$",)
        )

        assert slow.status == "skipped"
        assert slow.note == "took longer than 1.0 s"
        assert still_works(confined, tmp_path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux keeps this limit")
def test_a_pair_beyond_its_memory_is_skipped(tmp_path: Path) -> None:
    content = json.dumps([[n] for n in range(3_000_000)]).encode()
    with Confined(Limits(memory_bytes=300_000_000)) as confined:
        record = run(confined, tmp_path, content, content[:-1] + b",1]", "x.json")

        assert record.status == "skipped"
        assert "more memory" in record.note
        assert still_works(confined, tmp_path)


def test_a_reader_that_is_killed_is_told_with_its_signal(tmp_path: Path) -> None:
    with Confined() as confined:
        assert still_works(confined, tmp_path)
        child = confined._child
        assert child is not None
        os.kill(child._process.pid, signal.SIGSEGV)
        child._process.wait(timeout=10)

        record = run(confined, tmp_path, GOOD, GOOD[:-1], "x.npy")

        assert record.status == "unreadable"
        assert "SIGSEGV" in record.note
        assert still_works(confined, tmp_path)


def test_the_childs_children_end_with_it(tmp_path: Path) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("no /proc to look at")
    with Confined() as confined:
        still_works(confined, tmp_path)
        assert confined._child is not None
        group = confined._child._process.pid

    deadline = time.monotonic() + 10
    while _alive(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(group)
    assert not confined.scratch.exists()


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_module_in_the_users_directory_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the working directory')\n")
    monkeypatch.chdir(tmp_path)
    with Confined() as confined:
        assert still_works(confined, tmp_path)


def test_what_a_reader_leaves_behind_is_swept(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.safetensors", makers.safetensors(x=np.zeros(1000, "f4")))
    path = tmp_path / "bundle.zip"
    path.write_bytes(inner.getvalue())
    other = write(tmp_path / "b", makers.safetensors(x=np.ones(1000, "f4")))
    with Confined() as confined:
        size = len(makers.safetensors(x=np.zeros(1000, "f4")))

        record = confined.compare(
            "x.safetensors", Blob(path, size, "x.safetensors"), other, rules.EVERYTHING
        )

        assert record.status == "different"
        left = [p for p in confined.scratch.rglob("*") if p.is_file()]
        # The answer is there before the sweep is over; the next answer comes after it.
        still_works(confined, tmp_path)
        left = [p for p in confined.scratch.rglob("*") if p.is_file()]
        assert left == []


def _gif_of_many_frames() -> bytes:
    target = io.BytesIO()
    frames = [Image.new("P", (8, 8), n % 2) for n in range(50)]
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:])
    return target.getvalue()


def _png_that_says_it_is_huge() -> bytes:
    header = (100_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    chunk = b"IHDR" + header
    body = len(header).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n" + body


HOSTILE = {
    "nested list.json": b"[" * 200_000,
    "nested map.json": b'{"a":' * 100_000,
    "long number.json": b"[" + b"9" * 1_000_000 + b"]",
    "nested.yaml": b"[" * 2_000,
    "tag.yaml": b"!!python/object/apply:os.system ['echo pwned']",
    "nested.trace.json": b'{"traceEvents": [' + b"[" * 100_000,
    "bomb.trace.json.gz": gzip.compress(b'{"traceEvents": [' + b" " * 20_000_000),
    "huge.png": _png_that_says_it_is_huge(),
    "frames.gif": _gif_of_many_frames()[:-20],
    "objects.npy": makers.npy(np.array([{}, []], dtype=object)),
    "huge.npy": GOOD[:10] + GOOD[10:128].replace(b"(4,)", b"(1 << 40,)"[:4]) + b"\0" * 16,
    "header.safetensors": (99_000_000).to_bytes(8, "little") + b'{"a":' + b" " * 1000,
    "columns.csv": b",".join(b"c%d" % n for n in range(50_000)) + b"\n1\n",
    "quotes.csv": b'a,b\n"' + b"x" * 300_000,
    "nested.ptx": b".version 8.0\n.target sm_90\n.entry k(\n" + b"{\n" * 50_000,
    "names.kernels": b"_Z" + b"N" * 3000 + b"\n",
    "mangled.kernels": b"_ZN" + b"1aI" * 900 + b"\n",
    "escapes.log": b"\x1b]0;title\x07\x1b[2J\x1b[999;999H" * 1000 + b"\0",
    "random.npz": b"PK\x03\x04" + bytes(range(256)) * 40,
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_content_is_unreadable_or_skipped_and_the_next_pair_is_compared(
    name: str, tmp_path: Path, confined: Confined
) -> None:
    content = HOSTILE[name]
    kind = {"npz": "npz", "npy": "npy", "log": "text"}.get(name.rsplit(".", 1)[1])

    record = run(confined, tmp_path, content, content + b" ", name, type=kind)

    allowed = {"unreadable", "skipped"}
    if name.endswith(".kernels"):
        allowed = {"equal", "different", "unreadable"}
    assert record.status in allowed, record
    assert record.note or record.status == "equal"
    assert len(record.note) < 1000
    assert still_works(confined, tmp_path)


def test_random_bytes_under_every_suffix_break_nothing(tmp_path: Path, confined: Confined) -> None:
    random = np.random.default_rng(5)
    suffixes = "json jsonl yaml csv tsv npy npz safetensors ptx sass kernels png gif trace.json txt"
    for suffix in suffixes.split():
        for length in (0, 1, 9, 300):
            a, b = (random.integers(0, 256, length, np.uint8).tobytes() for _ in range(2))

            record = run(confined, tmp_path, a, b, f"x.{suffix}")

            if a == b:
                assert record.status in ("equal", "unreadable")
            else:
                assert record.status in ("unreadable", "different", "skipped"), (suffix, record)
