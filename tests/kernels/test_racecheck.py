"""The barriers of all warps are doubled, nothing else, and Triton's own cache is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton has no build for this platform")

from kernels.racecheck import met_twice

COMPILE = """
import sys
import torch
from kernels.gate.target import aim_at
aim_at("sm_90")
from kernels.racecheck import meet_twice
from kernels.moe.handover_kernel import hand_over
if sys.argv[1] == "twice":
    meet_twice()
eight = torch.empty(8, dtype=torch.int32, device="meta")
print(hand_over.warmup(eight, eight, 1, num_warps=4, grid=(1,)).asm["ptx"])
"""


def test_only_the_barrier_of_all_warps_is_doubled() -> None:
    ptx = "\tbarrier.sync \t1;\n\tbar.sync \t0, 128;\n\tbarrier.sync \t10;\n$L: ret;\n"

    assert met_twice(ptx) == "\tbarrier.sync \t1;\n" + ptx


def compiled(how: str, root: Path, cache: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {
        "KERNELS_BACKEND": "compile_only",
        "PYTHONPATH": str(root),
        "TRITON_CACHE_DIR": str(cache),
    }
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, how],
        cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return "".join(line for line in done.stdout.splitlines(True) if ".loc" not in line)


def test_a_kernel_is_compiled_so_and_the_cache_does_not_keep_it(root: Path, tmp_path: Path) -> None:
    """A kernel in the cache is not taken either: its barriers would be met once."""
    twice = compiled("twice", root, tmp_path)
    once = compiled("once", root, tmp_path)
    again = compiled("twice", root, tmp_path)

    assert once.count("barrier.sync") > 0
    assert twice == again == met_twice(once) != once
