"""The tuner, on a CPU, with times that the tests give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from triton.runtime.errors import OutOfResources, PTXASError

from kernels.moe import layer, peers
from kernels.moe.configs import PortableConfig
from kernels.moe.peers import Peer, UnavailableError
from kernels.moe.problem import Problem, draw_problem
from kernels.moe.shapes import Shape
from kernels.moe.tune import tune
from kernels.timing import rounds
from kernels.timing.rounds import Samples, Timed

SLOW, FAST, LARGE = (PortableConfig(16, columns, 16) for columns in (16, 32, 64))
TIMES = {str(SLOW): [10.0, 31.0, 90.0], str(FAST): [20.0, 21.0, 100.0], "grouped_mm": [40.0] * 3}


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> Problem:
    """A small call; its candidates take what TIMES says."""

    def interleave(variants: Sequence[Timed], count: int) -> dict[str, Samples]:
        return {each.name: Samples(each, "wall", "none", TIMES[each.name]) for each in variants}

    monkeypatch.setattr(rounds, "interleave", interleave)
    monkeypatch.setattr(peers, "grouped_mm", lambda one: Peer("grouped_mm", lambda: one.x))
    return draw_problem(Shape(10, 2, 3, 16, 16), "uniform", torch.float32, seed=0)


@pytest.mark.parametrize("order", [[SLOW, FAST], [FAST, SLOW]])
def test_the_smallest_median_wins(
    order: list[PortableConfig], problem: Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    best = tune("tiny", problem, order, rounds=3)

    said = capsys.readouterr().out.splitlines()
    told = [json.loads(line) for line in said if line.startswith("{")]
    assert best == (FAST, 21.0)
    assert {row["point"]["config"]: row["value"] for row in told} == {
        str(SLOW): 31.0,
        str(FAST): 21.0,
    }
    assert [str(FAST) in line for line in said if line.endswith("<- fastest")] == [True]
    assert any(f"0.525 of grouped_mm {FAST}" in line for line in said)


@pytest.mark.parametrize(
    "raised",
    [
        OutOfResources(300_000, 232_448, "shared memory"),
        PTXASError("too many registers"),
        RuntimeError("no kernel image"),
        ValueError("cannot run"),
    ],
    ids=lambda raised: type(raised).__name__,
)
def test_a_candidate_that_does_not_run_is_told_and_cannot_win(
    raised: Exception,
    problem: Problem,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = layer.moe

    def moe(*operands: Any, workspace: Any, **options: Any) -> torch.Tensor:
        if workspace.config == LARGE:
            raise raised
        return right(*operands, workspace=workspace, **options)

    monkeypatch.setattr(layer, "moe", moe)

    best = tune("tiny", problem, [LARGE, SLOW], rounds=3)

    assert best == (SLOW, 31.0)
    assert f"tiny: {LARGE} did not run: {raised}" in capsys.readouterr().out


def test_a_candidate_that_is_wrong_is_told_and_cannot_win(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = layer.moe

    def moe(*operands: Any, workspace: Any, out: torch.Tensor, **options: Any) -> torch.Tensor:
        if workspace.config == FAST:
            return out.zero_()
        return right(*operands, workspace=workspace, out=out, **options)

    monkeypatch.setattr(layer, "moe", moe)

    assert tune("tiny", problem, [FAST, SLOW], rounds=3) == (SLOW, 31.0)
    assert tune("tiny", problem, [FAST], rounds=3) is None
    assert f"tiny: {FAST} is wrong: relative L2 error 1.000e+00" in capsys.readouterr().out


def test_without_its_anchor_candidates_are_timed_all_the_same(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unavailable(problem: Problem) -> Peer:
        raise UnavailableError("not in this torch")

    monkeypatch.setattr(peers, "grouped_mm", unavailable)

    assert tune("tiny", problem, [SLOW, FAST], rounds=3) == (FAST, 21.0)
    assert "tiny: no anchor: not in this torch" in capsys.readouterr().out
