"""The compiled layer on a GPU; skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from kernels.backend import BACKEND, Backend
from kernels.moe.checks import Verdict, all_checks, subject
from kernels.moe.configs import Config, HopperConfig, PortableConfig
from kernels.moe.problem import draw_problem
from kernels.moe.scaled import DTYPE as SCALED
from kernels.moe.shapes import Shape

pytestmark = pytest.mark.skipif(BACKEND is not Backend.GPU, reason="needs a GPU; none is here")

VARIANTS = [
    PortableConfig(64, 64, 32, 4, 2),
    PortableConfig(16, 64, 64, 4, 2),
    HopperConfig(128, 64, 4, 56, wide=True),
    HopperConfig(128, 32, 4, 48),
    HopperConfig(64, 32, 5, 48),
    HopperConfig(64, 16, 5, 48),
]


@pytest.mark.parametrize("kind", ["uniform", "masked", "one_hot"])
@pytest.mark.parametrize("config", VARIANTS, ids=str)
def test_every_check_passes(config: Config, kind: str) -> None:
    if isinstance(config, HopperConfig) and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the Hopper kernel needs sm_90")
    problem = draw_problem(Shape(77, 3, 5, 320, 192), kind, torch.bfloat16, seed=4)

    verdicts = list(all_checks(subject(problem, config), repeats=2))

    assert [one for one in verdicts if not (isinstance(one, Verdict) and one.passed)] == []


@pytest.mark.parametrize("kind", ["uniform", "masked", "one_hot"])
@pytest.mark.parametrize("rows", [16, 64])
def test_every_check_passes_with_block_scaled_weights(rows: int, kind: str) -> None:
    config = PortableConfig(rows, 128, 64, 8 if rows == 64 else 4, 2)
    problem = draw_problem(Shape(77, 3, 5, 330, 200), kind, SCALED, seed=4)

    verdicts = list(all_checks(subject(problem, config), repeats=2))

    assert [one for one in verdicts if not (isinstance(one, Verdict) and one.passed)] == []
