from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels.epilogue import check, ops


class BrokenLauncher:
    """The real launcher, followed by one planted fault in the output."""

    def __init__(self, damage: Any) -> None:
        self.damage = damage

    def launch_gelu_linear(
        self, x: Any, w: Any, b: Any, scale: float, out: Any, block: Any
    ) -> None:
        REAL.launch_gelu_linear(x, w, b, scale, out, block)
        self.damage(out)

    def launch_add_relu(self, x: Any, y: Any, out: Any, block: int) -> None:
        REAL.launch_add_relu(x, y, out, block)
        self.damage(out)


REAL = ops.launcher


def unwritten_tail(out: torch.Tensor) -> None:
    out.view(-1)[-1:] = torch.nan


def off_by_one_row(out: torch.Tensor) -> None:
    out.copy_(out.roll(1, dims=0))


def one_wrong_row(out: torch.Tensor) -> None:
    out[-1] = out[-1] * 1.1 + 0.05


@pytest.mark.parametrize("op", ["gelu", "relu", "all"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_kernels_pass(op: str, dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = check.main(["--op", op, "--dtype", dtype])

    told = capsys.readouterr().out
    assert code == 0
    assert f"backend {ops.BACKEND.value}" in told
    assert '"metric": "backend"' in told


@pytest.mark.parametrize("op", ["gelu", "relu"])
@pytest.mark.parametrize("damage", [unwritten_tail, off_by_one_row, one_wrong_row])
def test_a_broken_kernel_is_caught(
    op: str, damage: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ops, "launcher", BrokenLauncher(damage))

    code = check.main(["--op", op])

    assert code == 1
    assert "WRONG" in capsys.readouterr().out


def test_help_names_the_axes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        check.main(["--help"])

    assert stopped.value.code == 0
    assert "--dtype" in capsys.readouterr().out
