"""npy, npz and safetensors: what stands around the numbers."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

import numpy as np
import pytest

from tests.diff import makers
from tests.diff.conftest import Compare

A = np.arange(6, dtype="f4").reshape(2, 3)


def header(text: str, body: bytes = b"") -> bytes:
    padded = text.encode("latin-1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + body


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors"])
def test_another_shape_is_different_and_nothing_more_is_compared(
    name: str, compare: Compare
) -> None:
    make: Any = {
        "x.npy": makers.npy,
        "x.npz": lambda v: makers.npz(x=v),
        "x.safetensors": lambda v: makers.safetensors(x=v),
    }[name]

    record = compare(make(A), make(A.reshape(3, 2)), name)

    found = record.children[0] if record.children else record
    assert record.status == "different"
    assert found.note == "float32 [2, 3] -> float32 [3, 2]"
    assert "max_abs" not in found.metrics


def test_another_dtype_is_different_and_its_values_are_compared(compare: Compare) -> None:
    record = compare(makers.npy(A), makers.npy(A.astype("f8") + 1e-3), "x.npy")

    assert record.status == "different"
    assert record.locations[0].where == "dtype"
    assert record.metrics["max_abs"] == pytest.approx(1e-3)
    assert "ulp_max" not in record.metrics


def test_byte_order_is_no_difference(compare: Compare) -> None:
    record = compare(makers.npy(A), makers.npy(A.astype(">f4")), "x.npy")

    assert record.status == "equal"


def test_places_are_told_in_the_arrays_own_order(compare: Compare) -> None:
    b = A.copy()
    b[1, 0] = 9
    layouts = [(A, b), (np.asfortranarray(A), np.asfortranarray(b)), (np.asfortranarray(A), b)]

    found = [compare(makers.npy(one), makers.npy(two), "x.npy") for one, two in layouts]

    assert [[place.where for place in record.locations] for record in found] == [["[1, 0]"]] * 3


def test_complex_numbers_are_compared_by_their_parts(compare: Compare) -> None:
    a = A.astype("c8")
    b = a.copy()
    b[1, 2] += 1j

    record = compare(makers.npy(a), makers.npy(b), "x.npy")

    assert [place.where for place in record.locations] == ["[1, 2].imag"]


@pytest.mark.parametrize("kind", ["c8", "c16"])
def test_of_complex_numbers_the_place_and_the_steps_are_those_of_a_part(
    kind: str, compare: Compare
) -> None:
    a = np.asfortranarray(A.astype(kind))
    b = a.copy(order="F")
    b.real[1, 2] = np.nextafter(b.real[1, 2], np.inf)

    record = compare(makers.npy(a), makers.npy(b), "x.npy", ulp=0, abs=0, rel=0)

    assert [place.where for place in record.locations] == ["[1, 2].real"]
    assert record.metrics["ulp_max"] == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("U5", ("'two'", "'\u1234'")),
        (">U5", ("'two'", "'\u1234'")),
        ("S3", ("b'two'", "b'\\xff'")),
        ("V3", ("0x74776f", "0xff0000")),
    ],
)
def test_elements_that_are_no_numbers_are_shown(
    kind: str, words: tuple[str, str], compare: Compare
) -> None:
    text = kind.lstrip("<>").startswith("U")
    values = (["one", "two"], ["one", "\u1234"]) if text else ([b"one", b"two"], [b"one", b"\xff"])
    a, b = (np.array(side, kind) for side in values)

    record = compare(makers.npy(a), makers.npy(b), "x.npy")

    assert [(p.where, p.a, p.b) for p in record.locations] == [("[1]", *words)]


@pytest.mark.parametrize("shape", [(), (0,), (0, 5), (1, 1, 1)])
def test_arrays_of_any_shape_are_compared(shape: tuple[int, ...], compare: Compare) -> None:
    a = np.zeros(shape, "f4")

    same = compare(makers.npy(a), makers.npy(np.asarray(a, ">f4")), "x.npy")

    assert same.status == "equal"
    assert same.metrics["elements"] == a.size


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (makers.npy(np.array([{}], dtype=object)), "Python objects"),
        (makers.npy(A)[:40], "no npy file"),
        (makers.npy(A)[:-1], "its header says"),
        (makers.npy(A) + b"x", "its header says"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}"), "shape"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (10**9, 10**9)}"), "npy"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (9" + "9" * 40 + ",)}"), "says"),
        (header("__import__('os').system('id')"), "no npy file"),
        (header("{'descr': 'O', 'fortran_order': False, 'shape': (1,)}"), "Python objects"),
        (header("[" * 50 + "]" * 50), "no npy file"),
        (b"\x93NUMPY\x09\x00" + b"\0" * 60, "version 9.0"),
    ],
    ids=range(11),
)
def test_malformed_npy_is_unreadable(content: bytes, reason: str, compare: Compare) -> None:
    record = compare(makers.npy(A), content, "x.npy")

    assert record.status == "unreadable"
    assert reason in record.note


def test_the_zip_around_the_arrays_does_not_count(compare: Compare) -> None:
    record = compare(makers.npz(a=A, b=A), makers.npz(b=A, a=A, compressed=True), "x.npz")

    assert record.status == "equal"
    assert record.metrics["tensors_equal"] == 2


def test_a_renamed_array_is_found_by_its_content(compare: Compare) -> None:
    record = compare(makers.npz(a=A, b=A + 1), makers.npz(a=A, c=A + 1, d=A + 2), "x.npz")

    assert record.status == "different"
    assert [(p.where, p.a, p.b) for p in record.locations] == [("renamed", "b", "c")]
    assert [(child.path, child.status) for child in record.children] == [("d", "only_b")]


@pytest.mark.parametrize("member", ["../evil.npy", "notes.txt", "x.npy"])
def test_a_zip_that_is_no_npz_is_unreadable(member: str, compare: Compare) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(member, b"nothing")

    record = compare(makers.npz(x=A), target.getvalue(), "x.npz", type="npz")

    assert record.status in ("unreadable", "different")
    assert record.status == "unreadable" or record.children[0].status == "only_a"


def test_tensors_of_every_dtype_are_compared(compare: Compare) -> None:
    kinds = ["float64", "float32", "float16", makers.BF16, makers.FP8, "int64", "uint8", "bool"]
    a = {f"t{n}": np.ones((2, 8)).astype(kind) for n, kind in enumerate(kinds)}
    b = {name: np.zeros((2, 8)).astype(tensor.dtype) for name, tensor in a.items()}

    same = compare(makers.safetensors({"v": "1"}, **a), makers.safetensors(**a), "x.safetensors")
    unlike = compare(makers.safetensors(**a), makers.safetensors(**b), "x.safetensors")

    assert same.metrics["tensors_equal"] == 8
    assert [(p.where, p.a, p.b) for p in same.locations] == [("metadata v", "1", "")]
    assert unlike.metrics["tensors_different"] == 8
    assert all(child.metrics["max_abs"] == 1 for child in unlike.children)


def safetensors_header(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.mark.parametrize(
    "content",
    [
        makers.safetensors(x=A)[:-1],
        makers.safetensors(x=A) + b"x",
        makers.safetensors(x=A)[:30],
        (1 << 60).to_bytes(8, "little") + b'{"x":1}',
        safetensors_header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234"),
        safetensors_header(
            {"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"12345678"
        ),
        safetensors_header(
            {"x": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 4]}}, b"1234"
        ),
        safetensors_header({"x": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}}, b"1234"),
        safetensors_header(b'{"x": {"dtype"'),
        safetensors_header(b'{"' + b"\xff" * 8 + b'": 1}'),
        b"",
        b"\0" * 8,
    ],
    ids=range(12),
)
def test_malformed_safetensors_are_unreadable(content: bytes, compare: Compare) -> None:
    record = compare(makers.safetensors(x=A), content, "x.safetensors", type="safetensors")

    assert record.status == "unreadable"
    assert record.note.startswith("B: ")
