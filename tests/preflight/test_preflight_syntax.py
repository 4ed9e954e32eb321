from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.source import Source
from preflight.syntax.cuda import CudaFile
from preflight.syntax.macros import blank_macros
from preflight.syntax.ptx import instructions, is_system_atomic, named_barrier
from preflight.syntax.python import PythonFile, constant
from preflight.syntax.yaml import YamlError, YamlFile


@pytest.mark.parametrize(
    ("assembly", "opcodes"),
    [
        ("bar.sync 0;", ["bar.sync"]),
        (
            "bar.sync 1, 128;\n\tred.async.relaxed.cluster [%0], 1;",
            ["bar.sync", "red.async.relaxed.cluster"],
        ),
        ("{ .reg .pred p; @p bra L; L: bar.arrive 2, 64; }", ["bra", "bar.arrive"]),
        ("// bar.sync 3;\nmov.u32 %0, %1;", ["mov.u32"]),
    ],
)
def test_instructions(assembly: str, opcodes: list[str]) -> None:
    assert [item.opcode for item in instructions(assembly)] == opcodes


@pytest.mark.parametrize(
    ("assembly", "expected"),
    [
        ("bar.sync 1, 128;", ("1", "128")),
        ("barrier.sync.aligned %0, %1;", ("%0", "%1")),
        ("bar.sync 0;", ("0", None)),
        ("bar.red.popc.u32 %0, 1, 64, p;", ("1", "64")),
        ("bar.red.popc.u32 %0, 1, p;", ("1", None)),
    ],
)
def test_named_barriers(assembly: str, expected: tuple[str, str | None]) -> None:
    barrier = named_barrier(instructions(assembly)[0])

    assert barrier is not None
    assert (barrier.id, barrier.threads) == expected


@pytest.mark.parametrize(
    "assembly",
    ["barrier.cluster.arrive;", "bar.warp.sync -1;", "mbarrier.init.shared.b64 [%0], 1;"],
)
def test_other_barriers_are_not_named_barriers(assembly: str) -> None:
    assert named_barrier(instructions(assembly)[0]) is None


@pytest.mark.parametrize(
    ("assembly", "expected"),
    [
        ("red.release.sys.global.add.u32 [%0], 1;", True),
        ("atom.acq_rel.sys.add.u32 %0, [%1], 1;", True),
        ("multimem.red.relaxed.sys.global.add.u32 [%0], 1;", True),
        ("red.release.gpu.global.add.u32 [%0], 1;", False),
        ("st.release.sys.global.u32 [%0], 1;", False),
        ("ld.acquire.sys.global.u32 %0, [%1];", False),
    ],
)
def test_system_atomics(assembly: str, expected: bool) -> None:
    assert is_system_atomic(instructions(assembly)[0]) is expected


def test_macros_are_blanked_without_moving_anything() -> None:
    code = b"CUTLASS_DEVICE\nvoid f() { float x __align__(16); }\n"

    blanked = blank_macros(code)

    assert len(blanked) == len(code)
    assert blanked.index(b"void f") == code.index(b"void f")
    assert b"CUTLASS" not in blanked
    assert b"__align__" not in blanked


def test_own_macros_make_a_function_clean() -> None:
    code = b"__global__ MY_ATTR(1) void k() { __syncthreads(); }\n"

    plain = CudaFile("a.cu", code)
    told = CudaFile("a.cu", code, macros=(r"MY_ATTR\(\d+\)",))

    assert plain.skipped == 1 or not any(f.clean and f.is_kernel for f in plain.functions)
    assert [(f.name, f.is_kernel, f.clean) for f in told.functions] == [("k", True, True)]


def test_launch_with_template_and_dim3() -> None:
    code = (
        b"constexpr int kT = 64;\nvoid run() {\n  dim3 grid(kT, 2), block{32, 8};\n"
        b"  ns::k<3, true><<<grid, block, 4 * 1024, s>>>(a);\n}\n"
    )

    (launch,) = CudaFile("a.cu", code).launches

    file = CudaFile("a.cu", code)
    assert launch.kernel == "k"
    assert file.value(launch.config[2]) == 4096


def test_constant_with_two_values_is_unknown() -> None:
    file = CudaFile("a.cu", b"#ifdef A\n#define N 1\n#else\n#define N 2\n#endif\n#define M 3\n")

    assert file.constants == {"M": 3}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 * 4 + 1", 13),
        ("-2", -2),
        ("1 << 4", 16),
        ("2 ** 3", 8),
        ("7 // 2", 3),
        ("x * 2", None),
        ("9 ** 99", None),
    ],
)
def test_constant_folding(text: str, value: object) -> None:
    assert constant(ast.parse(text, mode="eval").body) == value


def test_spans_count_characters_and_edits_count_bytes() -> None:
    data = '\ufeffx = "é" + f(1)\r\n'.encode()
    file = PythonFile("a.py", data)
    call = next(call for call, _ in file.calls)

    span = file.at(call)

    assert (span.line, span.column) == (1, 11)
    assert data[span.start_byte : span.end_byte] == b"f(1)"


def test_qualified_names_follow_the_imports() -> None:
    code = b"import torch as t\nfrom time import perf_counter as pc\nt.zeros(1)\npc()\na[0].b()\n"

    names = [name for _, name in PythonFile("a.py", code).calls]

    assert names == ["torch.zeros", "time.perf_counter", ""]


def test_yaml_spans_of_non_ascii_text() -> None:
    data = "a: é\nexperiment: ü x\n".encode()
    file = YamlFile("a.yaml", data)
    node = file.get("experiment")
    assert node is not None

    span = file.at(node)

    assert (span.line, span.column) == (2, 13)
    assert data[span.start_byte : span.end_byte] == "ü x".encode()


@given(st.binary(max_size=200))
def test_lines_and_columns_of_any_bytes(data: bytes) -> None:
    """Every offset belongs to the line it lies on, whatever the bytes are."""
    source = Source("a", data)

    for offset in range(len(data)):
        line = source.line_of(offset)
        assert 1 <= line <= len(source.line_starts)
        if offset >= source.line_starts[0]:
            assert source.line_starts[line - 1] <= offset
            assert source.column_of(offset) >= 1


def test_an_escape_of_no_character_does_not_parse() -> None:
    with pytest.raises(YamlError, match="no character") as told:
        YamlFile("e.yaml", b'a: 1\nb: "\\U99999999"\n')

    assert told.value.line == 2
