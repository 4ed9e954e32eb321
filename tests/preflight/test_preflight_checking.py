"""Whatever is in a file, checking it gives findings and never an exception."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.checking import check_file
from preflight.config import Config
from preflight.rule import registry

CONFIG = Config(Path("/"), persistent_kernels=("k",), device_explicit=("*",))
RULES = list(registry())
# Fragments that rules look for; what stands between them is drawn.
PIECES = {
    "python": [
        "import torch, time, subprocess, triton, logging",
        "@torch.compile",
        "@triton.jit",
        "def f(x: torch.Tensor, *a):",
        "",
        "    ",
        "t = time.time()",
        "x[i] = 1",
        "torch.zeros(3)",
        "for i in range(99):",
        "try:",
        "except Exception as e:",
        "pass",
        'print(f"{t * 1e3} us")',
        "k[(n,)](x, num_warps=64)",
        "a.elapsed_time(b)",
        "if x.sum() > 0:",
        "else:",
        "subprocess.run(c)",
        "return",
        '"',
        "'",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "\\",
        "#",
        "lambda: (",
        'torch.set_default_device("cuda")',
        "# preflight: ignore[a] -- b",
        "match x:",
        "case 1:",
        '"/home/a/b"',
        "yield",
        "await x",
    ],
    "cuda": [
        "__global__ void k(int* f) {",
        "}",
        "{",
        ";",
        "if (threadIdx.x < 3)",
        "while (*f != n) {}",
        "__syncthreads();",
        "return;",
        "dim3 g(3, 4);",
        "",
        "k<<<g, 2048, 99999>>>(f);",
        'asm volatile("bar.sync 0, 100;");',
        "switch (a) {",
        "case 1:",
        "default:",
        "template <int N>",
        "#define N 3",
        "atomicAdd_system(f, 1);",
        "// preflight: ignore[a] -- b",
        "/*",
        "*/",
        '"',
        "'",
        "(",
        ")",
        "*f = 0;",
        "cudaStreamBeginCapture(s, 0);",
        "warpgroup::store(a, b);",
    ],
    "yaml": [
        "experiment: x",
        "ledger: x",
        "hosts:",
        "steps:",
        "  - id: a",
        "    run: bash -c 'a ",
        " b'",
        "    needs: [a, b]",
        "    gpus: 4",
        "entries:",
        "",
        "  - expect: {value: 1}",
        "timeout: 5m",
        "caches: kept",
        "whitelist:",
        "  - {n: 1}",
        "env: {TRITON_CACHE_DIR: /home/a/b}",
        "x: yes",
        "y: 1e3",
        "z: 010",
        "    matrix: {a: [1, 2]}",
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        "&a",
        "*a",
        "<<: *a",
        "- ",
        ": ",
        "# preflight: ignore[a] -- b",
    ],
    "shell": [
        "#!/bin/bash",
        "python a ",
        " tee b",
        "/home/a/b/c",
        "#",
        "'",
        '"',
        "$(",
        ")",
        "set -o pipefail",
        "\\",
    ],
}


def check(language: str, data: bytes) -> None:
    result = check_file(f"scripts/a.{language}", data, language, RULES, CONFIG)

    for finding in result.findings:
        assert 0 <= finding.span.start_byte <= finding.span.end_byte <= len(data)
        assert finding.span.line >= 1


@pytest.mark.parametrize("language", sorted(PIECES))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes(language: str, data: st.DataObject) -> None:
    check(language, data.draw(st.binary(max_size=200)))


@pytest.mark.parametrize("language", sorted(PIECES))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_pieces_of_code(language: str, data: st.DataObject) -> None:
    pieces = st.sampled_from(PIECES[language])
    joints = st.sampled_from(["\n", " ", "\n    ", "", "\r\n", "\ufeff", "é"])
    text = "".join(
        piece + joint
        for piece, joint in data.draw(st.lists(st.tuples(pieces, joints), max_size=25))
    )

    check(language, text.encode())
