"""What a host may send to break the reader: each pair ends in a record, in bounded time."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.diff import rules
from orchestrator.diff.confined import Confined
from orchestrator.diff.record import Record
from tests.conftest import ROOT
from tests.diff import makers
from tests.diff.conftest import write

# Generous: the machine may be busy. The product's own deadline for a pair is longer.
PATIENCE_S = 45.0
Ask = Callable[[bytes, bytes, str], Record]


@pytest.fixture
def ask(confined: Confined, tmp_path: Path) -> Ask:
    """Compare in the reading process; the answer comes in time, and is short."""

    def run(a: bytes, b: bytes, name: str) -> Record:
        start = time.monotonic()
        blobs = write(tmp_path / "a", a), write(tmp_path / "b", b)
        record = confined.compare(name, *blobs, rules.EVERYTHING)
        assert time.monotonic() - start < PATIENCE_S
        assert len(json.dumps(record.as_json())) < 100_000
        return record

    return run


# ---- text


def test_a_line_of_50_mb(ask: Ask) -> None:
    line = b"0123456789 /tmp/x " * 2_800_000

    record = ask(line + b"a\n", line + b"b\n", "x.log")

    assert record.status == "different"
    assert record.metrics["added_lines"] == 1


def test_50_mb_of_numbers_without_a_newline(ask: Ask) -> None:
    line = b"1," * 25_000_000

    record = ask(b"[" + line + b"1]", b"[" + line + b"2]", "x.json")

    assert record.status in ("different", "skipped")
    assert record.status == "different" or "values" in record.note or "memory" in record.note


def test_300_000_lines_that_all_differ(ask: Ask) -> None:
    a, b = (b"".join(b"%s %d\n" % (side, n) for n in range(300_000)) for side in (b"a", b"b"))

    record = ask(a, b, "x.log")

    assert record.status == "different"
    assert record.metrics["added_lines"] == 300_000
    assert record.more == 300_000 - len(record.locations)


def test_bytes_that_are_called_text(ask: Ask) -> None:
    content = bytes(range(256)) * 100

    record = ask(content, content[:-1] + b"\0", "notes.txt")

    assert record.status == "unreadable"
    assert "not text" in record.note


@pytest.mark.parametrize("flag", ["--plain", "--json"])
def test_escape_sequences_do_not_reach_the_terminal(flag: str, tmp_path: Path) -> None:
    evil = "\x1b]0;taken\x07\x1b[2J\x1b[31mred\x9b31m \u202etxt.exe\u2066\r\b"
    for side, text in (("a", f"{evil}one\n"), ("b", f"{evil}two\n")):
        folder = tmp_path / side
        folder.mkdir()
        (folder / "x.log").write_text(text, "utf-8")
        (folder / "\x1b[2Jname\u202e.json").write_text(json.dumps({evil: side}), "utf-8")
        (folder / "x.safetensors").write_bytes(
            makers.safetensors({evil: side}, **{evil: np.array([len(side + text)], "f4")})
        )

    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "diff", "a", "b", flag],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "FORCE_COLOR": ""},
        capture_output=True,
        timeout=120,
        check=True,
    )

    told = done.stdout.decode("utf-8")
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\b", "\r"} & set(told)
    assert "one" in told
    assert "two" in told


# ---- documents


def test_deep_json(ask: Ask) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000

    record = ask(deep, deep.replace(b"]", b" ]", 1), "x.json")

    assert record.status == "unreadable"
    assert "deep" in record.note


def test_a_yaml_bomb_of_aliases(ask: Ask) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))

    record = ask(f"l0: &l0 [1]\n{levels}".encode(), f"l0: &l0 [2]\n{levels}".encode(), "x.yaml")

    assert record.status == "skipped"
    assert "more values" in record.note


# ---- tensors


@pytest.mark.parametrize("kind", ["f4", "f8", makers.BF16, makers.FP8])
def test_tensors_of_nan_alone(kind: object, ask: Ask) -> None:
    nan = np.full((4, 16), np.nan).astype(kind)  # type: ignore[call-overload]
    other = np.ones((4, 16)).astype(kind)  # type: ignore[call-overload]

    same = ask(makers.safetensors(x=nan), makers.safetensors({"v": "1"}, x=nan), "x.safetensors")
    unlike = ask(makers.safetensors(x=nan), makers.safetensors(x=other), "x.safetensors")

    assert [(p.where, p.b) for p in same.locations] == [("metadata v", "1")]
    assert same.metrics["tensors_equal"] == 1
    assert unlike.status == "different"
    assert unlike.metrics["nan_a"] == 64
    assert unlike.metrics["special_mismatches"] == 64
    assert "cosine" not in unlike.children[0].metrics, "there is no angle to nothing"


def header(tensors: object, body: bytes) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text + body


F32 = {"dtype": "F32", "shape": [2]}
LIES = {
    "outside": header({"x": {**F32, "data_offsets": [1000, 1008]}}, b"\0" * 8),
    "beyond the end": header({"x": {**F32, "data_offsets": [0, 1 << 40]}}, b"\0" * 8),
    "backwards": header({"x": {**F32, "data_offsets": [8, 0]}}, b"\0" * 8),
    "negative": header({"x": {**F32, "data_offsets": [-8, 0]}}, b"\0" * 8),
    "overlapping": header(
        {"x": {**F32, "data_offsets": [0, 8]}, "y": {**F32, "data_offsets": [4, 12]}}, b"\0" * 12
    ),
    "twice the same": header(
        {"x": {**F32, "data_offsets": [0, 8]}, "y": {**F32, "data_offsets": [0, 8]}}, b"\0" * 8
    ),
    "shape of 2^200": header(
        {"x": {"dtype": "F32", "shape": [1 << 50] * 4, "data_offsets": [0, 8]}}, b"\0" * 8
    ),
    "huge header": (90_000_000).to_bytes(8, "little") + b'{"' + b"a" * 90_000_000,
    "header beyond the file": ((1 << 64) - 1).to_bytes(8, "little") + b'{"x": 1}',
    "200 000 tensors of nothing": header(
        {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(200_000)},
        b"x",
    ),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_headers_that_lie(lie: str, ask: Ask) -> None:
    honest = header({"x": {**F32, "data_offsets": [0, 8]}}, b"\0" * 8)

    record = ask(honest, LIES[lie], "x.safetensors")

    assert record.status in ("unreadable", "different"), record
    # What is not even called safetensors by its first bytes is another type, and said so.
    assert record.status == "unreadable" or "A is safetensors, B is" in record.note


def zipped(*members: tuple[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return target.getvalue()


@pytest.mark.parametrize(("count", "status"), [(1, "unreadable"), (3, "skipped")])
def test_an_npz_that_says_it_unpacks_to_a_mountain(count: int, status: str, ask: Ask) -> None:
    honest = zipped(*((f"x{n}.npy", makers.npy(np.zeros(1000, "f4"))) for n in range(count)))
    size = struct.pack("<I", 4128)
    first = honest.index(b"PK\x01\x02")
    # Four gigabytes a member, in the directory that readers go by.
    bomb = honest[:first] + honest[first:].replace(size, struct.pack("<I", 0xFFFFFFF0))

    record = ask(honest, bomb, "x.npz")

    assert record.status == status
    assert ("unpacks to more than" if count == 3 else "its header says") in record.note


def test_an_honest_npz_of_100_mb_of_nothing(ask: Ask) -> None:
    zeros = makers.npz(compressed=True, x=np.zeros(100_000_000, "u1"))
    one = np.zeros(100_000_000, "u1")
    one[-1] = 1

    record = ask(zeros, makers.npz(compressed=True, x=one), "x.npz")

    assert record.status == "different"
    assert record.children[0].locations[0].where == "[99999999]"


def test_an_npz_whose_member_is_longer_than_it_says(ask: Ask) -> None:
    whole = makers.npy(np.zeros(50_000_000, "u1"))
    honest = zipped(("x.npy", makers.npy(np.zeros(4, "u1"))))
    lie = zipped(("x.npy", whole)).replace(struct.pack("<I", len(whole)), struct.pack("<I", 132))

    record = ask(honest, lie, "x.npz")

    assert record.status == "unreadable"


@pytest.mark.parametrize("cut", [1, 30, 100, 300])
def test_a_cut_npz(cut: int, ask: Ask) -> None:
    whole = makers.npz(x=np.arange(100.0), y=np.arange(50))

    record = ask(whole, whole[:-cut], "x.npz")

    assert record.status == "unreadable"


# ---- images


def test_a_png_that_unpacks_to_a_mountain(ask: Ask) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    size = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    packed = zlib.compress(b"\0" * 20_000_000, 9)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", packed)
    bomb += chunk(b"IEND", b"")

    record = ask(makers.image(), bomb, "x.png")

    assert record.status == "skipped"
    assert "30000 x 30000 pixels" in record.note or "too large" in record.note


def test_a_png_whose_comment_unpacks_to_a_mountain(ask: Ask) -> None:
    text = b"c\0\0" + zlib.compress(b"x" * 100_000_000, 9)
    body = b"zTXt" + text
    comment = struct.pack(">I", len(text)) + body + struct.pack(">I", zlib.crc32(body))
    plain = makers.image()
    at = plain.index(b"IDAT") - 4

    record = ask(plain, plain[:at] + comment + plain[at:], "x.png")

    assert record.status in ("equal", "unreadable", "skipped")


# ---- packages


def test_without_its_package_a_type_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "for name in ('numpy', 'PIL', 'ml_dtypes', 'safetensors', 'ijson', 'itanium_demangler'):\n"
        "    sys.modules[name] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pairs = {
        "x.npy": (makers.npy([1.0]), makers.npy([2.0])),
        "x.npz": (makers.npz(x=[1.0]), makers.npz(x=[2.0])),
        "x.safetensors": (
            makers.safetensors(x=np.ones(2, "f4")),
            makers.safetensors(x=np.zeros(2, "f4")),
        ),
        "x.png": (makers.image(), makers.image((0, 0, 5, 5))),
        "x.trace.json": (makers.trace(), makers.trace(makers.event("a", 0, 1))),
    }
    with Confined() as bare:
        for name, (a, b) in pairs.items():
            blobs = write(tmp_path / "a", a), write(tmp_path / "b", b)

            record = bare.compare(name, *blobs, rules.EVERYTHING)
            same = bare.compare(name, blobs[0], blobs[0], rules.EVERYTHING)

            assert record.status == "skipped", name
            assert "pip install 'gpu-orch[diff]'" in record.note
            assert same.status == "equal", "bytes need no package"
        blobs = write(tmp_path / "a", b"a 1\n"), write(tmp_path / "b", b"a 2\n")
        assert bare.compare("x.log", *blobs, rules.EVERYTHING).status == "different"
        names = write(tmp_path / "a", b"gemm\n"), write(tmp_path / "b", b"gemv\n")
        assert bare.compare("x.kernels", *names, rules.EVERYTHING).status == "different"
