from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton has no build for this platform")

from kernels.gate import check
from kernels.gate.target import Resources

RECORDED = {
    "registers": 100, "spilled": 8, "shared_bytes": 1000,
    "matrix": {"wgmma": 4}, "bulk_copies": 2, "async_copies": 3, "announced": 5,
}  # fmt: skip
SAME = Resources(100, 8, 1000, {"wgmma": 4}, 2, 3, 5)


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_every_kernel_compiles_to_what_is_recorded(target: str, root: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}

    done = subprocess.run(
        [sys.executable, "-m", "kernels.gate.check", "--target", target],
        cwd=root, env={**environment, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "moe.gate_up.128" in done.stdout


def test_the_ledger_holds_matrix_instructions_and_no_spills_in_portable_kernels() -> None:
    ledger = json.loads(check.LEDGER.read_text("utf-8"))

    for target, matrix in (("sm_90", "wgmma"), ("gfx942", "mfma")):
        kernels = ledger[target]["kernels"]
        assert kernels["moe.gate_up.128"]["matrix"][matrix] > 0
        for name in ("moe.scaled.gate_up.64", "moe.scaled.down.64"):
            assert kernels[name]["matrix"][matrix] > 0
        portable = [name for name in kernels if not name.startswith("moe.sm90")]
        assert {kernels[name]["spilled"] for name in portable} == {0}
    assert ledger["sm_90"]["kernels"]["moe.sm90.128x32"]["bulk_copies"] > 0
    assert ledger["sm_90"]["kernels"]["moe.sm90.128x32"]["announced"] > 0


def test_the_same_needs_pass_and_a_few_registers_are_forgiven() -> None:
    assert list(check.differences("k", SAME, RECORDED)) == []
    assert list(check.differences("k", replace(SAME, registers=108), RECORDED)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"registers": 109}, "109 registers"),
        ({"announced": 4}, "announces 4 times"),
        ({"spilled": 16}, "spills 16"),
        ({"shared_bytes": 1001}, "1001 bytes shared"),
        ({"matrix": {"mma_sync": 4}}, "multiplies with"),
        ({"matrix": {}}, "multiplies with"),
        ({"bulk_copies": 1}, "1 bulk copies"),
        ({"async_copies": 0}, "lost its asynchronous copies"),
    ],
)
def test_needing_more_or_losing_an_instruction_is_told(
    change: dict[str, object], said: str
) -> None:
    (problem,) = check.differences("k", replace(SAME, **change), RECORDED)  # type: ignore[arg-type]

    assert said in problem


def test_a_kernel_without_a_record_is_told() -> None:
    (problem,) = check.differences("k", SAME, None)

    assert "--write" in problem


def test_an_announcement_that_nobody_was_met_for_is_a_problem_recorded_or_not() -> None:
    bare = replace(SAME, unmet=("line 7: @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];",))

    assert list(check.unmet("k", SAME)) == []
    (told,) = check.unmet("k", bare)
    assert told.startswith(
        "k: one thread announces for many that have not met at a barrier: line 7"
    )


def test_a_name_that_no_kernel_has_is_no_pass(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernels.gate.check", "--target", "gfx942", "--only", "moe.sm90"],
        cwd=root, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "error: no kernel for gfx942 has a name that begins with moe.sm90" in done.stdout
