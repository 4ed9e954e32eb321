from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from kernels.accuracy import REL_L2_BOUND, poisoned, rel_l2, within
from kernels.epilogue import ops, torch_model
from kernels.epilogue.reference import (
    eager_add_relu,
    eager_gelu_linear,
    exact_add_relu,
    exact_gelu_linear,
)

DEVICE = ops.BACKEND.device
LAUNCHERS = {"selected": ops.launcher, "torch_model": torch_model}


@dataclass(frozen=True)
class Shape:
    M: int
    N: int
    K: int


SHAPES = [Shape(1, 1, 1), Shape(77, 77, 38), Shape(64, 64, 32), Shape(65, 130, 33), Shape(0, 5, 3)]


def operands(shape: Shape, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(shape.M, shape.K, generator=draw)
    w = torch.randn(shape.K, shape.N, generator=draw) / shape.K**0.5
    b = torch.randn(shape.N, generator=draw)
    return x.to(DEVICE, dtype), w.to(DEVICE, dtype), b.to(DEVICE, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_gelu_linear_is_right_everywhere(
    launcher: str, shape: Shape, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "launcher", LAUNCHERS[launcher])
    x, w, b = operands(shape, dtype)

    out = ops.gelu_linear(x, w, b, 0.7, out=poisoned(shape.M, shape.N, dtype=dtype, device=DEVICE))

    assert within(rel_l2(out, exact_gelu_linear(x, w, b, 0.7)), REL_L2_BOUND[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("elements", [0, 1, 1023, 1025])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_add_relu_is_right_everywhere(
    launcher: str, elements: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "launcher", LAUNCHERS[launcher])
    x = torch.randn(elements, device=DEVICE).to(dtype)
    y = torch.randn(elements, device=DEVICE).to(dtype)

    out = ops.add_relu(x, y, out=poisoned(elements, dtype=dtype, device=DEVICE))

    assert within(rel_l2(out, exact_add_relu(x, y)), REL_L2_BOUND[dtype])


def test_float32_agrees_with_eager() -> None:
    x, w, b = operands(Shape(33, 40, 50), torch.float32)

    torch.testing.assert_close(ops.gelu_linear(x, w, b, 1.5), eager_gelu_linear(x, w, b, 1.5))
    torch.testing.assert_close(ops.add_relu(w, w), eager_add_relu(w, w))


def test_operands_may_have_any_strides() -> None:
    x, w, b = operands(Shape(30, 40, 50), torch.float32)
    transposed_w = w.t().contiguous().t()
    every_other_row = torch.cat([x, x], dim=1).view(-1, 50)[::2]

    out = ops.gelu_linear(every_other_row, transposed_w, b, 1.0)

    torch.testing.assert_close(out, eager_gelu_linear(x, w, b, 1.0))


def test_nan_in_one_row_stays_in_that_row() -> None:
    x, w, b = operands(Shape(70, 70, 40), torch.float32)
    clean = ops.gelu_linear(x, w, b, 1.0)
    x[69] = math.nan

    out = ops.gelu_linear(x, w, b, 1.0)

    assert out[69].isnan().all()
    assert torch.equal(out[:69], clean[:69])


def test_relu_keeps_nan_as_torch_does() -> None:
    x = torch.tensor([math.nan, -1.0, 2.0], device=DEVICE)

    out = ops.add_relu(x, torch.zeros_like(x))

    torch.testing.assert_close(out, torch.relu(x), equal_nan=True)


def test_operands_that_do_not_fit_are_named() -> None:
    x, w, b = operands(Shape(4, 5, 6), torch.float32)

    with pytest.raises(ValueError, match=r"x \(4, 6\), w \(5, 6\)"):
        ops.gelu_linear(x, w.t(), b, 1.0)
    with pytest.raises(ValueError, match="dtypes differ"):
        ops.gelu_linear(x, w.half(), b, 1.0)
    with pytest.raises(ValueError, match="`out` does not fit"):
        ops.gelu_linear(x, w, b, 1.0, out=torch.empty(4, 4))
    with pytest.raises(ValueError, match=r"`y` is not contiguous"):
        ops.add_relu(torch.ones(4, 4), torch.ones(4, 4).t())
