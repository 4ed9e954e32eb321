from __future__ import annotations

import json

import pytest
import torch

from kernels.accuracy import REL_L2_BOUND, poisoned, rel_l2, within
from kernels.moe import portable
from kernels.moe.configs import PortableConfig
from kernels.moe.problem import draw_problem
from kernels.moe.scaled import DTYPE as SCALED
from kernels.moe.scaled import BlockScaled, quantise_groups
from kernels.moe.shapes import Shape
from kernels.moe.stages import add_up, split_in_place, staged
from kernels.moe.telling import tell_account
from kernels.moe.workspace import with_hidden


def test_an_account_adds_up_to_the_whole_launch() -> None:
    # Two programs, times in nanoseconds: layer 0 until 4000, layer 1 until 9000 and 7000.
    trace = torch.zeros(2, 3, 3, dtype=torch.int64)
    trace[0, 0] = torch.tensor([1000, 4000, 1])
    trace[0, 1] = torch.tensor([4500, 9000, 2])
    trace[1, 0] = torch.tensor([1000, 4000, 1])
    trace[1, 1] = torch.tensor([4000, 7000, 3])

    spent = add_up(trace)

    assert spent.total_us == 8.0
    assert spent.stages == {"layer0": 3.0, "layer1": 2.25, "combine": 1.5}
    assert spent.idle_us == 1.0
    assert spent.between_us == pytest.approx(0.25)
    assert spent.full == 0


def test_an_account_of_a_full_trace_is_not_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    trace = torch.zeros(3, 2, 3, dtype=torch.int64)
    trace[:, 0] = torch.tensor([1000, 4000, 1])
    trace[1, 1] = torch.tensor([4000, 9000, 3])

    tell_account(add_up(trace))
    said = capsys.readouterr().out
    trace[1, 1] = 0
    tell_account(add_up(trace))

    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert "merged, SM time: none, 1 programs filled the 512 items that are traced" in said
    assert {(row["value"], row["status"]) for row in told} == {(None, "not_applicable")}
    assert "merged, SM time of 3.0 us: layer0 3.0, layer1 0.0" in capsys.readouterr().out


def test_stages_compute_what_the_whole_does() -> None:
    problem = draw_problem(Shape(12, 2, 3, 32, 16), "uniform", torch.float32, seed=0)
    separate = staged(problem, PortableConfig(16, 16, 16))

    times = split_in_place(problem, separate, rounds=1)

    torch.testing.assert_close(separate.out.double(), problem.reference(), rtol=1e-4, atol=1e-5)
    assert set(times) == {"schedule", "layer0", "layer1", "combine", "e2e"}
    assert all(len(samples) == 1 for samples in times.values())


def test_stages_of_block_scaled_weights_begin_with_rounding() -> None:
    problem = draw_problem(Shape(12, 2, 3, 140, 40), "uniform", SCALED, seed=0)
    separate = staged(problem, PortableConfig(16, 128, 64))
    separate.workspace.poison()

    times = split_in_place(problem, separate, rounds=1)

    assert list(times) == ["schedule", "quantise", "layer0", "layer1", "combine", "e2e"]
    assert within(rel_l2(separate.out, problem.reference()), REL_L2_BOUND[torch.bfloat16])


@pytest.mark.parametrize(
    ("dtype", "config"),
    [(torch.float32, PortableConfig(16, 16, 16)), (SCALED, PortableConfig(16, 128, 64))],
    ids=["plain", "block_scaled"],
)
def test_without_its_activation_layer_0_gives_gate_and_then_up(
    dtype: torch.dtype, config: PortableConfig
) -> None:
    shape = Shape(12, 2, 3, 140, 20)
    problem = draw_problem(shape, "uniform", dtype, seed=0)
    separate = staged(problem, config)
    wide = poisoned(24, 2 * shape.inter, dtype=torch.float32, device=problem.x.device)
    unactivated = with_hidden(separate.workspace, wide)
    separate.run()

    portable.gate_up(problem.x, problem.w13, unactivated, activate=False)

    table = separate.workspace.schedule
    x, w13 = problem.x.double(), problem.w13
    if isinstance(w13, BlockScaled):
        x = quantise_groups(problem.x).dequantised(torch.float64)
    for row, choice in enumerate(table.choice_of_row.tolist()):
        expert = int(problem.ids.flatten()[choice])
        weights = w13.expert(expert, x.dtype) if isinstance(w13, BlockScaled) else w13[expert]
        right = x[choice // shape.top_k] @ weights.double().t()
        torch.testing.assert_close(wide[row].double(), right, rtol=1e-2, atol=1e-2)
