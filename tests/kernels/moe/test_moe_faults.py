"""Kernels broken on purpose, in their source, must be caught by the check."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernels.moe import checks, grouped_gemm, layer, portable, scaled_gemm, table_check
from kernels.moe.checks import (
    LeftOut,
    Subject,
    Verdict,
    accuracy,
    isolation,
    reproducible,
    subject,
    table,
)
from kernels.moe.configs import PortableConfig
from kernels.moe.problem import draw_problem
from kernels.moe.scaled import DTYPE as SCALED
from kernels.moe.shapes import Shape
from kernels.moe.workspace import Workspace

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


SCALED_FAULTS = {
    "wrong_scale_block": ("group = k // GROUP\n        x_scale", "group = 0 * k\n        x_scale"),
    "gate_scale_for_up": ("((INTER + col) // GROUP)", "(col // GROUP)"),
    "scale_of_another_expert": ("scale13_ptr + expert * stride_se", "scale13_ptr + 0 * stride_se"),
    "scale_of_another_row": (
        "x_scale_ptr + token * tl.cdiv",
        "x_scale_ptr + tl.maximum(token - 1, 0) * tl.cdiv",
    ),
    "off_by_one_row": (
        "token = (choice // TOP_K).to(tl.int64)\n    col =",
        "token = tl.maximum(choice // TOP_K - 1, 0).to(tl.int64)\n    col =",
    ),
    "missing_inner_mask_of_layer_0": ("inside = inner < H - k", "inside = inner < H - k + 1"),
    "missing_inner_mask_of_layer_1": (
        "inside = inner < INTER - k",
        "inside = inner < INTER - k + 1",
    ),
    "hidden_scale_forgotten": ("* h_scale[:, None] * scale", "* scale"),
    "hidden_scale_of_one_group_only": (
        "rows.to(tl.int64) * columns + tl.program_id(0) % columns",
        "rows.to(tl.int64) * columns",
    ),
    "short_group_has_no_scale": (
        "row * tl.cdiv(H, GROUP) + tl.program_id(1)",
        "row * (H // GROUP) + tl.program_id(1)",
    ),
    "last_row_not_rounded": ("row_ok = row < tokens\n", "row_ok = row < tokens - 1\n"),
    "unwritten_columns": ("col_ok = col < H\n", "col_ok = col < H - 1\n"),
}


def broken(module: ModuleType, fault: tuple[str, str], folder: Path) -> ModuleType:
    """A module of kernels with one fault planted, imported from a copy."""
    right, wrong = fault
    source = Path(str(module.__file__)).read_text("utf-8")
    assert right in source, f"the place of a fault has moved: {right}"
    copy = folder / f"broken_{abs(hash(fault))}.py"
    copy.write_text(source.replace(right, wrong), "utf-8")
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec is not None
    assert spec.loader is not None
    copied = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copied)
    return copied


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_caught(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portable, "grouped_gemm", broken(grouped_gemm, FAULTS[fault], tmp_path))
    problem = draw_problem(Shape(22, 3, 4, 50, 34), "uniform", torch.float32, seed=1)

    verdict = accuracy(subject(problem, PortableConfig(16, 16, 16)))

    assert not verdict.passed, verdict.said


@pytest.mark.parametrize("fault", SCALED_FAULTS)
def test_a_broken_block_scaled_kernel_is_caught(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = broken(scaled_gemm, SCALED_FAULTS[fault], tmp_path)
    monkeypatch.setattr(portable, "scaled_gemm", planted)
    problem = draw_problem(Shape(17, 2, 3, 150, 134), "uniform", SCALED, seed=1)

    verdict = accuracy(subject(problem, PortableConfig(16, 128, 64)))

    assert not verdict.passed, verdict.said


@pytest.mark.parametrize(
    ("shape", "dtype", "config"),
    [
        (Shape(22, 3, 4, 50, 34), torch.float32, PortableConfig(16, 16, 16)),
        (Shape(17, 2, 3, 150, 134), SCALED, PortableConfig(16, 128, 64)),
    ],
    ids=["plain", "block_scaled"],
)
def test_the_same_problem_passes_unbroken(
    shape: Shape, dtype: torch.dtype, config: PortableConfig
) -> None:
    unbroken = subject(draw_problem(shape, "uniform", dtype, seed=1), config)

    for verdict in (accuracy(unbroken), isolation(unbroken), table(unbroken)):
        assert isinstance(verdict, Verdict)
        assert verdict.passed, verdict.said


RIGHT = (Shape(22, 3, 4, 50, 34), torch.float32, PortableConfig(16, 16, 16))


def right() -> Subject:
    shape, dtype, config = RIGHT
    return subject(draw_problem(shape, "uniform", dtype, seed=1), config)


def test_a_token_that_reaches_another_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each output row with a trace of the middle token's input, which no finite run shows."""

    def leaking(x: torch.Tensor, *operands: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
        layer.moe(x, *operands, out=out, **options)
        return out.add_(x[RIGHT[0].tokens // 2, 0] * 0)

    monkeypatch.setattr(checks, "moe", leaking)

    assert accuracy(right()).passed
    assert_not_isolated(right(), "others alone")


@pytest.mark.parametrize("columns", [slice(None), slice(-1, None)], ids=["all", "the_last"])
def test_a_token_whose_nan_is_lost_is_caught(
    columns: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cleaning(*operands: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
        layer.moe(*operands, out=out, **options)
        out[:, columns].nan_to_num_()
        return out

    monkeypatch.setattr(checks, "moe", cleaning)

    assert accuracy(right()).passed
    assert_not_isolated(right(), "lost on the way")


def test_the_token_that_is_spoilt_has_an_expert() -> None:
    some, none = right(), right()
    some.problem.ids[: RIGHT[0].tokens - 1] = -1
    none.problem.ids.fill_(RIGHT[0].experts)

    verdict, left_out = isolation(some), isolation(none)

    assert isinstance(verdict, Verdict)
    assert verdict.passed
    assert isinstance(left_out, LeftOut)


def assert_not_isolated(checked: Subject, why: str) -> None:
    verdict = isolation(checked)
    assert isinstance(verdict, Verdict)
    assert not verdict.passed
    assert why in verdict.said


def test_every_run_begins_with_a_poisoned_workspace_and_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []

    def watched(
        *operands: Any, workspace: Workspace, out: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        assert isinstance(workspace.h, torch.Tensor)
        found.append([bool(rows.isnan().all()) for rows in (workspace.h, workspace.y, out)])
        return layer.moe(*operands, workspace=workspace, out=out, **options)

    monkeypatch.setattr(checks, "moe", watched)
    checked = right()

    for _ in range(2):
        checked.run()

    assert found == [[True] * 3] * 2


@pytest.mark.parametrize("other", [0, 1, 2, 3])
def test_one_run_of_other_bits_is_caught(other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def changing(*operands: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
        layer.moe(*operands, out=out, **options)
        if len(ran) == other:
            out[-1, -1] = torch.nextafter(out[-1, -1], torch.ones_like(out[-1, -1]) * 1e9)
        ran.append(other)
        return out

    monkeypatch.setattr(checks, "moe", changing)

    verdict = reproducible(right(), repeats=3)

    assert not verdict.passed
    assert verdict.value is False


def test_runs_of_the_same_bits_are_counted_and_pass() -> None:
    verdict = reproducible(right(), repeats=2)

    assert verdict.passed
    assert verdict.said == "3 runs give the same bits"


@pytest.mark.parametrize("found", ["check_rows", "check_tiles", "check_items"])
def test_each_part_of_the_table_is_looked_at(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = right()
    checked.run()
    monkeypatch.setattr(table_check, found, lambda *of: [f"{found} found something"])

    verdict = table(checked)

    assert isinstance(verdict, Verdict)
    assert not verdict.passed
    assert f"{found} found something" in verdict.said
