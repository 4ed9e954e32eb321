"""Kernels broken on purpose, in their source, must be caught by the check."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kernels.moe import grouped_gemm, layer
from kernels.moe.checks import accuracy, isolation, subject
from kernels.moe.configs import PortableConfig
from kernels.moe.problem import draw_problem
from kernels.moe.shapes import Shape

SOURCE = Path(grouped_gemm.__file__)
FAULTS = {
    "off_by_one_row": (
        "token = (choice // TOP_K).to(tl.int64)\n    col =",
        "token = tl.maximum(choice // TOP_K - 1, 0).to(tl.int64)\n    col =",
    ),
    "last_row_unwritten": (
        "return expert, rows, lane < tl.load(at + 2)",
        "return expert, rows, lane < tl.load(at + 2) - 1",
    ),
    "missing_inner_mask": ("inside = inner < H - k", "inside = inner < H - k + 1"),
    "wrong_expert_stride": ("w2_ptr + expert * stride_we", "w2_ptr + 0 * stride_we"),
    "gate_and_up_swapped": ("silu_mul(gate, up), dtype", "silu_mul(up, gate), dtype"),
    "unwritten_columns": ("col_ok = col < H\n", "col_ok = col < H - 1\n"),
    "missing_choice": ("tl.static_range(TOP_K)", "tl.static_range(TOP_K - 1)"),
    "weight_forgotten": ("weight[:, None] * y, 0.0", "y, 0.0"),
}


def broken(fault: str, folder: Path) -> ModuleType:
    """The kernels with one fault planted, imported from a copy."""
    right, wrong = FAULTS[fault]
    source = SOURCE.read_text("utf-8")
    assert right in source, f"the place of `{fault}` has moved: {right}"
    copy = folder / f"broken_{fault}.py"
    copy.write_text(source.replace(right, wrong), "utf-8")
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_caught(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, "grouped_gemm", broken(fault, tmp_path))
    problem = draw_problem(Shape(22, 3, 4, 50, 34), "uniform", torch.float32, seed=1)

    verdict = accuracy(subject(problem, PortableConfig(16, 16, 16)))

    assert not verdict.passed, verdict.said


def test_the_same_problem_passes_unbroken() -> None:
    problem = draw_problem(Shape(22, 3, 4, 50, 34), "uniform", torch.float32, seed=1)
    right = subject(problem, PortableConfig(16, 16, 16))

    assert accuracy(right).passed
    assert isolation(right).passed
