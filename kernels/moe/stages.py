"""Where the layer's time goes: stage by stage, and as SM time inside the merged kernel."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from kernels.moe import layer, portable
from kernels.moe.configs import Config, HopperConfig
from kernels.moe.grouped_gemm import activation_kernel
from kernels.moe.problem import Problem
from kernels.moe.schedule import build
from kernels.moe.workspace import Workspace, hopper_tile, reserve, with_hidden
from kernels.timing.rounds import Timed, flush_bytes

FILLER_SQUARE = 8192
TRACED_ITEMS = 512
KINDS = ("layer0", "layer1", "combine")


@dataclass(frozen=True)
class Staged:
    """The layer as separate launches, in the order they run."""

    workspace: Workspace
    out: torch.Tensor
    steps: dict[str, Callable[[], None]]

    def run(self) -> None:
        for step in self.steps.values():
            step()


def staged(problem: Problem, config: Config) -> Staged:
    """Schedule, layer 0, layer 1 and combination as steps with nothing merged.

    Block-scaled weights have a fifth, `quantise`, before layer 0. On the Hopper path each is a
    part of the one kernel's table, which then has no late columns.
    """
    if isinstance(config, HopperConfig):
        config = replace(config, late=0)
    x = problem.x
    workspace = reserve(problem.shape, config, x.dtype, x.device, scaled=problem.scaled)
    out = torch.empty_like(x)
    steps: dict[str, Callable[[], None]] = {
        "schedule": lambda: build(workspace.schedule, problem.ids) and None
    }
    if isinstance(config, HopperConfig):
        part = layer.hopper_launch.Part
        for name, which in zip(KINDS, (part.LAYER_0, part.LAYER_1, part.COMBINE), strict=True):
            steps[name] = _hopper_part(problem, workspace, out, which)
    else:
        rounded = workspace.x
        if rounded is not None:
            steps["quantise"] = lambda: portable.quantise(x, rounded)
        steps["layer0"] = lambda: portable.gate_up(x, problem.w13, workspace)
        steps["layer1"] = lambda: portable.down(
            problem.w2, problem.weights, workspace, workspace.y, atomic=False
        )
        steps["combine"] = lambda: portable.combine_rows(problem.weights, workspace, out)
    return Staged(workspace, out, steps)


def controls(problem: Problem, split: Staged) -> list[Timed]:
    """The layer-0 GEMM without its activation, and the activation alone, on the same table."""
    workspace, shape = split.workspace, problem.shape
    rows = shape.tokens * shape.top_k
    x = problem.x
    wide = torch.randn(rows, 2 * shape.inter, dtype=x.dtype, device=x.device)
    narrow = torch.empty(rows, shape.inter, dtype=x.dtype, device=x.device)
    count = torch.tensor([rows], dtype=torch.int32, device=x.device)

    def activation() -> None:
        activation_kernel[(rows,)](wide, narrow, count, shape.inter, BLOCK=1024)

    def table(number: int) -> None:
        problem.fresh(number)
        build(workspace.schedule, problem.ids)

    if isinstance(workspace.config, HopperConfig):
        gemm = _hopper_part(
            problem, workspace, split.out, layer.hopper_launch.Part.LAYER_0, activate=False
        )
    else:
        unactivated = with_hidden(workspace, wide)

        def gemm() -> None:
            portable.gate_up(x, problem.w13, unactivated, activate=False)

    return [
        Timed("layer0_gemm", gemm, table, includes=("layer 0 without SiLU * up",)),
        Timed("activation", activation, includes=("SiLU * up alone",)),
    ]


def merged_and_not(problem: Problem, config: HopperConfig, split: Staged) -> list[Timed]:
    """One persistent launch, and one launch a stage, to be timed in the same rounds."""
    x = problem.x
    workspace = reserve(problem.shape, config, x.dtype, x.device)

    def merged() -> None:
        layer.moe(
            x, problem.w13, problem.w2, problem.ids, problem.weights,
            workspace=workspace, out=split.out,
        )  # fmt: skip

    whole = ("schedule", *KINDS)
    return [
        Timed("merged", merged, problem.fresh, includes=whole),
        Timed("sequence", split.run, problem.fresh, includes=whole),
    ]


def split_in_place(problem: Problem, split: Staged, rounds: int) -> dict[str, list[float]]:
    """Time each step inside one sequence, and beside it (`e2e`) the same steps as one graph.

    Both are queued behind a large matrix product: it keeps the card hot, and gives the host time
    to queue every launch, so that no gap between two steps is the host's.

    Returns:
        Microseconds a round, by step, and for `e2e`.
    """
    if not torch.cuda.is_available():
        return _split_on_cpu(problem, split, rounds)
    times: dict[str, list[float]] = {name: [] for name in (*split.steps, "e2e")}
    flush = torch.ones(flush_bytes() // 4, dtype=torch.float32, device="cuda")
    filler = torch.randn(FILLER_SQUARE, FILLER_SQUARE, dtype=torch.bfloat16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    split.run()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        split.run()

    def marks_of(steps: Sequence[Callable[[], None]], number: int) -> list[torch.cuda.Event]:
        problem.fresh(number)
        torch.mm(filler, filler)
        flush.sum()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(steps) + 1)]
        marks[0].record()
        for mark, step in zip(marks[1:], steps, strict=True):
            step()
            mark.record()
        torch.cuda.synchronize()
        return marks

    for number in range(rounds + 2):
        whole = marks_of([graph.replay], number)
        marks = marks_of(list(split.steps.values()), number)
        if number < 2:
            continue  # the card is still warming up
        times["e2e"].append(whole[0].elapsed_time(whole[1]) * 1e3)
        for name, begin, end in zip(split.steps, marks, marks[1:], strict=False):
            times[name].append(begin.elapsed_time(end) * 1e3)
    return times


def _split_on_cpu(problem: Problem, split: Staged, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in (*split.steps, "e2e")}
    for number in range(rounds):
        problem.fresh(number)
        start = time.perf_counter()
        for name, step in split.steps.items():
            begin = time.perf_counter()
            step()
            times[name].append((time.perf_counter() - begin) * 1e6)
        times["e2e"].append((time.perf_counter() - start) * 1e6)
    return times


@dataclass(frozen=True)
class Account:
    """SM time of one merged launch, microseconds averaged over its programs.

    `stages` is time inside items of each kind, waits for other programs included; `between` the
    gaps from one item to the next, `idle` from a program's last item to the end of the launch.
    `full` programs left no room in their trace: of what they ran after it nothing is known.
    """

    total_us: float
    stages: dict[str, float]
    between_us: float
    idle_us: float
    full: int


def account(problem: Problem, config: HopperConfig) -> Account:
    """Trace one merged launch and add up where its programs spent their time."""
    x = problem.x
    workspace = reserve(problem.shape, config, x.dtype, x.device)
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    tile = hopper_tile(config)
    maps = layer.hopper_launch.descriptors(problem.w13, problem.w2, tile)
    out = torch.empty_like(x)
    for _ in range(2):
        trace = torch.zeros(programs, TRACED_ITEMS, 3, dtype=torch.int64, device=x.device)
        build(workspace.schedule, problem.ids)
        layer.hopper_launch.launch(
            tile, maps, workspace.schedule, x, workspace.h, workspace.y, out,
            problem.weights, programs, trace=trace,
        )  # fmt: skip
    torch.cuda.synchronize()
    return add_up(trace.cpu())


def add_up(trace: torch.Tensor) -> Account:
    """Account of a (programs, items, 3) trace of {begin ns, end ns, kind + 1 or 0}."""
    begin, end, kind = (trace[..., column].double() for column in range(3))
    there = kind > 0
    start = begin[there].min()
    finish = end[there].max()
    programs = trace.shape[0]
    stages = {
        name: float((end - begin)[kind == number + 1].sum()) / programs / 1e3
        for number, name in enumerate(KINDS)
    }
    last = torch.where(there, end, start).amax(dim=1)
    idle = float((finish - last).sum()) / programs / 1e3
    total = float(finish - start) / 1e3
    full = int(there[:, -1].sum())
    return Account(total, stages, total - sum(stages.values()) - idle, idle, full)


def median_of(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(samples) for name, samples in times.items()}


def _hopper_part(
    problem: Problem,
    workspace: Workspace,
    out: torch.Tensor,
    part: layer.hopper_launch.Part,
    *,
    activate: bool = True,
) -> Callable[[], None]:
    assert isinstance(workspace.config, HopperConfig)
    tile = hopper_tile(workspace.config)
    maps = layer.hopper_launch.descriptors(problem.w13, problem.w2, tile)
    programs = torch.cuda.get_device_properties(problem.x.device).multi_processor_count

    def run() -> None:
        layer.hopper_launch.launch(
            tile, maps, workspace.schedule, problem.x, workspace.h, workspace.y, out,
            problem.weights, programs, part=part, activate=activate,
        )  # fmt: skip

    return run
