"""What the benchmark times, and what it makes of times that the tests give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from kernels.backend import Backend
from kernels.moe import bench, layer, peers, portable, schedule
from kernels.moe.configs import PortableConfig
from kernels.moe.peers import Peer
from kernels.moe.problem import Problem, draw_problem
from kernels.moe.shapes import Shape
from kernels.timing import record as record_module
from kernels.timing import rounds
from kernels.timing.ceilings import Ceilings
from kernels.timing.rounds import Samples, Timed

SMALL = PortableConfig(16, 16, 16)
# The rounds' ratios are 0.4, 3 and 0.25; that of the medians is 0.6, of the fastest samples 2.
TIMES = {"ours": [20.0, 30.0, 40.0], "schedule": [5.0, 1.0, 4.0], "eager": [50.0, 10.0, 160.0]}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Timed]:
    """What the benchmark asked to be timed, filled when it does; the times are TIMES.

    Each runs once, for its output to be looked at, and times are recorded as a GPU's are.
    """
    asked: dict[str, Timed] = {}

    def interleave(variants: Sequence[Timed], count: int) -> dict[str, Samples]:
        asked.update({each.name: each for each in variants})
        for each in variants:
            each.fresh(count - 1)
            each.run()
        return {each.name: Samples(each, "graph", "none", TIMES[each.name]) for each in variants}

    monkeypatch.setattr(rounds, "interleave", interleave)
    monkeypatch.setattr(record_module, "BACKEND", Backend.GPU)
    return asked


@pytest.fixture
def problem() -> Problem:
    return draw_problem(Shape(10, 2, 3, 32, 16), "uniform", torch.float32, seed=0)


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return {row["metric"]: row for row in map(json.loads, lines)}


def test_a_time_is_the_median_and_a_ratio_ours_by_the_peers(
    timed: dict[str, Timed], problem: Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bench.compare(problem, SMALL, ["eager"], 3, None)

    rows = told(capsys)
    assert found == bench.Told(ours_is_right=True, all_well=True)
    assert (rows["e2e"]["value"], rows["e2e"]["samples"]) == (30.0, TIMES["ours"])
    assert (rows["e2e.eager"]["value"], rows["e2e.eager"]["samples"]) == (50.0, TIMES["eager"])
    assert (rows["schedule"]["value"], rows["schedule"]["samples"]) == (4.0, TIMES["schedule"])
    assert rows["ratio.eager"]["value"] == 0.4
    assert {rows[name]["unit"] for name in ("e2e", "e2e.eager", "schedule")} == {"us"}


@pytest.mark.parametrize(
    ("floor", "fraction", "status"),
    [(15.0, 0.5, "ok"), (30.0, 1.0, "ok"), (30.5, 30.5 / 30, "ok"), (30.7, None, "error")],
)
def test_the_floor_is_compared_with_the_median(
    floor: float,
    fraction: float | None,
    status: str,
    timed: dict[str, Timed],
    problem: Problem,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Shape, "floor_us", lambda shape, *of: floor)

    found = bench.compare(problem, SMALL, [], 3, Ceilings(1.0, 1.0, 1.0))

    row = told(capsys)["fraction"]
    assert found.all_well is (status == "ok")
    assert (row["value"], row["status"]) == (fraction, status)


def test_ours_counts_one_table_and_one_layer_and_a_schedule_the_table_alone(
    timed: dict[str, Timed], problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    build, run = schedule.build, portable.run

    def counted_build(*of: Any) -> Any:
        did.append("build")
        return build(*of)

    def counted_run(*of: Any) -> None:
        did.append("layer")
        run(*of)

    monkeypatch.setattr(schedule, "build", counted_build)
    monkeypatch.setattr(layer, "build", counted_build)
    monkeypatch.setattr(portable, "run", counted_run)
    bench.compare(problem, SMALL, [], 1, None)
    did.clear()

    timed["ours"].run()
    assert did == ["build", "layer"]
    timed["schedule"].run()
    assert did == ["build", "layer", "build"]
    assert all(each.fresh == problem.fresh for each in timed.values())


def test_a_peer_is_timed_by_its_own_run_on_fresh_inputs(
    timed: dict[str, Timed], problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def eager(of: Problem) -> Peer:
        def run() -> torch.Tensor:
            ran.append(of)
            return of.reference().to(of.x.dtype)

        return Peer("eager", run, graph=False)

    monkeypatch.setitem(peers.ALL, "eager", eager)
    bench.compare(problem, SMALL, ["eager"], 1, None)
    ran.clear()

    timed["eager"].run()

    assert ran == [problem]
    assert timed["eager"].graph is False
    assert timed["eager"].fresh == problem.fresh
