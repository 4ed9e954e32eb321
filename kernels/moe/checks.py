"""The checks of one layer call: numbers, bits, isolation, table, graph replay, two streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kernels.accuracy import E4M3_REL_L2_BOUND, poisoned, rel_l2, within
from kernels.backend import BACKEND, Backend
from kernels.moe import table_check
from kernels.moe.configs import Config
from kernels.moe.layer import Workspace, moe, reserve
from kernels.moe.problem import Problem

# Above this many choices the table's proof, in Python, would take longer than the rest.
PROVABLE_CHOICES = 200_000


@dataclass(frozen=True)
class Verdict:
    """One check's result: what to record, and whether it is right."""

    metric: str
    value: float | bool | int
    passed: bool
    said: str


@dataclass(frozen=True)
class LeftOut:
    """A check that says nothing about this call, and why."""

    metric: str
    why: str


@dataclass(frozen=True)
class Subject:
    """A problem, and the variant under check with its workspace."""

    problem: Problem
    config: Config
    workspace: Workspace

    def run(
        self, workspace: Workspace | None = None, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """One call into a poisoned output, with a poisoned workspace unless one is given."""
        problem = self.problem
        if workspace is None:
            workspace = self.workspace
            workspace.poison()
        return moe(
            problem.x, problem.w13, problem.w2, problem.ids, problem.weights,
            workspace=workspace, out=self.fresh_output() if out is None else out,
        )  # fmt: skip

    def fresh_output(self) -> torch.Tensor:
        x = self.problem.x
        return poisoned(*x.shape, dtype=x.dtype, device=x.device)

    @property
    def bound(self) -> float:
        return self.problem.bound


def subject(problem: Problem, config: Config) -> Subject:
    return Subject(problem, config, _workspace(problem, config))


def _workspace(problem: Problem, config: Config) -> Workspace:
    x = problem.x
    return reserve(problem.shape, config, x.dtype, x.device, scaled=problem.scaled)


def all_checks(checked: Subject, repeats: int) -> Iterator[Verdict | LeftOut]:
    """Every check that this backend can make, cheapest first."""
    yield accuracy(checked)
    if checked.problem.scaled:
        yield rounding(checked)
    yield isolation(checked)
    yield table(checked)
    yield reproducible(checked, repeats)
    if BACKEND is Backend.GPU:
        yield replayed(checked)
        yield concurrent(checked)


def accuracy(checked: Subject) -> Verdict:
    """Relative L2 error against float64, from poisoned output and workspace."""
    error = rel_l2(checked.run(), checked.problem.reference())
    said = f"relative L2 error {error:.3e}, bound {checked.bound:.0e}"
    return Verdict("rel_l2", error, within(error, checked.bound), said)


def rounding(checked: Subject) -> Verdict:
    """Relative L2 error against float64 of the layer whose weights and rows are not rounded."""
    error = rel_l2(checked.run(), checked.problem.unquantised().reference())
    said = f"of the layer before rounding to e4m3: {error:.3e}, bound {E4M3_REL_L2_BOUND:.0e}"
    return Verdict("rel_l2_unquantised", error, within(error, E4M3_REL_L2_BOUND), said)


def isolation(checked: Subject) -> Verdict | LeftOut:
    """NaN and infinity in one token must reach all of that token's output, and no other."""
    x, ids = checked.problem.x, checked.problem.ids
    if x.shape[0] < 2:
        return LeftOut("isolated", "there is no other token that one's NaN could reach")
    # A token without an expert is zero whatever it holds.
    routed = ((ids >= 0) & (ids < checked.problem.shape.experts)).any(1).nonzero().flatten()
    if not len(routed):
        return LeftOut("isolated", "no token goes to an expert, so none's NaN has an output")
    clean = checked.run()
    spoilt = int(routed[len(routed) // 2])
    kept = x[spoilt : spoilt + 1].clone()
    x[spoilt : spoilt + 1] = float("nan")
    x[spoilt : spoilt + 1, 0] = float("inf")
    out = checked.run()
    x[spoilt : spoilt + 1] = kept
    others = torch.arange(x.shape[0], device=out.device) != spoilt
    told = f"NaN in one token leaves the bits of {int(others.sum())} others alone"
    if not torch.equal(out[others], clean[others]):
        return Verdict("isolated", False, False, f"not so: {told}")
    if not out[spoilt].isnan().all():
        return Verdict("isolated", False, False, "NaN in one token is lost on the way")
    return Verdict("isolated", True, True, f"{told}, and reaches its own")


def table(checked: Subject) -> Verdict | LeftOut:
    """The table of the last run, proved on the CPU."""
    choices = checked.workspace.schedule.choices
    if choices > PROVABLE_CHOICES:
        why = f"{choices} choices: the table is proved up to {PROVABLE_CHOICES}"
        return LeftOut("table_problems", why)
    on_cpu = checked.workspace.schedule.on_cpu()
    # The run used its counters up; that they begin at zero is tested where tables are.
    on_cpu.signals.zero_()
    found = table_check.check_rows(on_cpu, checked.problem.ids)
    found += table_check.check_tiles(on_cpu)
    found += table_check.check_items(on_cpu)
    tiles = int(on_cpu.totals[0])
    said = f"table of {tiles} tiles: " + (found[0] if found else "every row and column once")
    return Verdict("table_problems", len(found), not found, said)


def reproducible(checked: Subject, repeats: int) -> Verdict:
    """The same bits on every run."""
    first = checked.run()
    same = all(torch.equal(checked.run(), first) for _ in range(repeats))
    return Verdict("reproducible", same, same, f"{repeats + 1} runs give the same bits")


def replayed(checked: Subject) -> Verdict:
    """A graph captured with one routing, replayed with others, against float64 each time."""
    out = checked.fresh_output()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        checked.run(checked.workspace, out)
    errors = []
    for number in range(len(checked.problem.routings)):
        checked.problem.fresh(number)
        out.fill_(float("nan"))
        graph.replay()
        errors.append(rel_l2(out, checked.problem.reference()))
    passed = all(within(error, checked.bound) for error in errors)
    worst = max(errors, key=lambda error: (error != error, error))
    said = f"graph replayed with fresh routing: worst error {worst:.3e}"
    return Verdict("graph_rel_l2", worst, passed, said)


def concurrent(checked: Subject) -> Verdict:
    """Two streams at once, a workspace each, give the bits that one gives alone."""
    alone = checked.run()
    spaces = [_workspace(checked.problem, checked.config) for _ in range(2)]
    outs = [checked.fresh_output() for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(8):
        for space, stream, out in zip(spaces, streams, outs, strict=True):
            with torch.cuda.stream(stream):
                checked.run(space, out)
    torch.cuda.synchronize()
    same = all(torch.equal(out, alone) for out in outs)
    return Verdict("concurrent", same, same, "two streams at once give the same bits")
