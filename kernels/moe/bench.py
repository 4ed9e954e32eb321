"""Time the fused layer beside its peers: interleaved rounds, cold L2, fresh routing.

    python -m kernels.moe.bench --shape a --peers grouped_mm --rounds 21
    python -m kernels.moe.bench --shape a --split     # stages, controls and SM-time account too
    python -m kernels.moe.bench                       # small, interpreted, without a GPU

The time of ours counts the schedule. Every output timed is checked against float64 afterwards; a
wrong one has no time. On a CPU the times are the interpreter's: they prove that the program runs,
and nothing about any GPU.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.backend import BACKEND, Backend
from kernels.moe.arguments import (
    NoSuchCallError,
    add_config,
    add_problem,
    call_of,
    count,
    say_what_fp8_leaves_open,
)
from kernels.timing.record import record

if TYPE_CHECKING:
    from kernels.moe.configs import Config
    from kernels.moe.problem import Problem
    from kernels.timing.ceilings import Ceilings
    from kernels.timing.rounds import Samples

OURS = "ours"
PEERS = ("bf16", "eager", "grouped_mm", "grouped_mm_compiled", "vllm", "sglang", "triton_kernels")
PEER_ERROR_BOUND = 1e-2


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    print(f"backend {BACKEND.value}: this times {BACKEND.proves}")
    say_what_fp8_leaves_open(args)
    if BACKEND in (Backend.MODEL, Backend.COMPILE_ONLY):
        print("error: the layer needs Triton and a way to run it; nothing was timed")
        return 2
    from kernels.timing.ceilings import measure_ceilings

    try:
        problem, config = call_of(args)
    except NoSuchCallError as refused:
        print(f"error: {refused}; nothing was timed")
        return 2
    print(f"{problem.shape}, routing {args.routing}, {args.dtype}; {config}")
    record("backend", BACKEND.value)
    record("config", str(config))

    from triton.runtime.errors import OutOfResources

    from kernels.moe.peers import LostGpuError

    try:
        told = compare(problem, config, args.peers, args.rounds, measure_ceilings())
    except OutOfResources as short:
        print(f"error: {config} does not fit this device: {short}; nothing was timed")
        return 2
    except LostGpuError as lost:
        print(f"error: {lost}; nothing was timed")
        record("e2e", None, "us", status="error", note=str(lost))
        return 1
    if args.split and told.ours_is_right:
        split(problem, config, args.rounds)
    return 0 if told.all_well else 1


@dataclass(frozen=True)
class Told:
    """Whether our output was right, and whether everything else was as well."""

    ours_is_right: bool
    all_well: bool


def compare(
    problem: Problem, config: Config, peers: Sequence[str], rounds: int, ceilings: Ceilings | None
) -> Told:
    """Time ours and the peers in the same rounds, check every output, tell times and ratios."""
    import torch

    from kernels.moe.layer import moe, reserve
    from kernels.moe.peers import FailedError, UnavailableError, ready
    from kernels.moe.schedule import build
    from kernels.timing.evidence import kernel_names
    from kernels.timing.rounds import Timed, interleave

    x = problem.x
    workspace = reserve(problem.shape, config, x.dtype, x.device, scaled=problem.scaled)
    outs = {OURS: torch.empty_like(x)}

    def ours() -> None:
        moe(
            x, problem.w13, problem.w2, problem.ids, problem.weights,
            workspace=workspace, out=outs[OURS],
        )  # fmt: skip

    timed = [
        Timed(OURS, ours, problem.fresh, includes=("schedule", "layer 0", "layer 1", "combine")),
        Timed(
            "schedule",
            lambda: build(workspace.schedule, problem.ids) and None,
            problem.fresh,
            includes=("schedule",),
        ),
    ]
    all_well = True
    problem.fresh(0)
    for name in dict.fromkeys(peers):
        try:
            peer = ready(name, problem.unquantised())
        except UnavailableError as reason:
            print(f"skip  {name}: {reason}")
            leave_out(name, "skipped", str(reason))
            continue
        except FailedError as reason:
            print(f"WRONG {name}: {reason}")
            traceback.print_exception(reason.__cause__)
            leave_out(name, "error", str(reason))
            all_well = False
            continue

        def run(peer_name: str = name, run_peer: object = peer.run) -> None:
            outs[peer_name] = run_peer()  # type: ignore[operator]

        timed.append(Timed(name, run, problem.fresh, peer.graph, ("everything",)))
    samples = interleave(timed, rounds)

    problem.fresh(rounds - 1)
    truth = problem.reference()
    unrounded = problem.unquantised().reference() if problem.scaled and len(outs) > 1 else truth
    correct = {}
    for name in outs:
        right = truth if name == OURS else unrounded
        bound = problem.bound if name == OURS else PEER_ERROR_BOUND
        correct[name] = tell(name, samples[name], outs[name], right, bound)
        if name != OURS:
            tell_ratio(name, samples, [each for each in (OURS, name) if not correct[each]])
    all_well &= all(correct.values())
    scheduled = samples["schedule"]
    print(f"      schedule {scheduled.median_us:.1f} us")
    record(
        "schedule", scheduled.median_us, "us",
        samples=scheduled.times_us, timing=scheduled.as_timing() | {"scope": "host_plan"},
    )  # fmt: skip
    if correct[OURS]:
        all_well &= tell_floor(problem, samples[OURS], ceilings)
    names = kernel_names(ours)
    print(f"      launched: {', '.join(names) or 'nothing on a GPU'}")
    record("kernels", ",".join(names) or "none")
    return Told(correct[OURS], all_well)


def leave_out(name: str, status: str, reason: str) -> None:
    """Record why a peer has no time, and so no ratio."""
    record(f"e2e.{name}", None, "us", status=status, note=reason)
    record(f"ratio.{name}", None, "1", status=status, note=reason)


def tell(name: str, samples: Samples, out: object, truth: object, bound: float) -> bool:
    """Print and record one implementation's time, if its output is right."""
    import torch

    from kernels.accuracy import rel_l2, within
    from kernels.timing.evidence import output_hash

    assert isinstance(out, torch.Tensor)
    assert isinstance(truth, torch.Tensor)
    error = rel_l2(out, truth)
    metric = "e2e" if name == OURS else f"e2e.{name}"
    check = {"rel_l2": error if error == error else None, "output_sha256": output_hash(out)}
    if not within(error, bound):
        print(f"WRONG {name}: relative L2 error {error:.3e}, bound {bound:.0e}: no time")
        record(metric, None, "us", check=check, status="error", note=f"rel_l2 {error}")
        return False
    print(
        f"ok    {name}: {samples.median_us:.1f} us median, {samples.min_us:.1f} fastest of"
        f" {len(samples.times_us)}; relative L2 error {error:.2e}"
    )
    record(
        metric, samples.median_us, "us", samples=samples.times_us,
        timing=samples.as_timing() | {"scope": "e2e"}, check=check,
    )  # fmt: skip
    if name == OURS:
        record("rel_l2", error)
    return True


def tell_ratio(name: str, samples: Mapping[str, Samples], wrong: Sequence[str]) -> None:
    """Print and record our time by a peer's, unless one of them computed something else."""
    if wrong:
        reason = f"the output of {' and '.join(wrong)} is wrong"
        print(f"      ours / {name}: none, {reason}")
        record(f"ratio.{name}", None, "1", status="error", note=reason)
        return
    ratio = samples[OURS].ratio_to(samples[name])
    print(f"      ours / {name}: {ratio:.3f}")
    record(f"ratio.{name}", ratio, "1")


def tell_floor(problem: Problem, samples: Samples, ceilings: Ceilings | None) -> bool:
    """Compare with what the operations and bytes need at this run's own ceilings."""
    if ceilings is None:
        return True
    faster = problem.product_rate
    floor_us = problem.shape.floor_us(
        problem.active_experts,
        problem.x.itemsize,
        faster * ceilings.flops_per_s,
        ceilings.bytes_per_s,
        problem.weight_bytes,
    )
    fraction = floor_us / samples.median_us
    print(
        f"      floor {floor_us:.1f} us ({ceilings.flops_per_s / 1e12:.0f} TFLOP/s cold x {faster},"
        f" {ceilings.sustained_flops_per_s / 1e12:.0f} sustained,"
        f" {ceilings.bytes_per_s / 1e12:.2f} TB/s); fraction reached {fraction:.3f}"
    )
    record("ceiling.flops", ceilings.flops_per_s / 1e12, "TFLOP/s")
    record("ceiling.bytes", ceilings.bytes_per_s / 1e12, "TB/s")
    record("floor", floor_us, "us")
    if fraction > 1.02:
        print("WRONG faster than the floor: the time does not count all of the work")
        record("fraction", None, "1", status="error", note=f"{fraction:.3f}: faster than the floor")
        return False
    record("fraction", fraction, "1")
    return True


def split(problem: Problem, config: Config, rounds: int) -> None:
    """Stage times in one sequence, their sum against the same launches in a graph, and controls."""
    from kernels.moe import stages
    from kernels.moe.configs import HopperConfig
    from kernels.timing.rounds import interleave

    separate = stages.staged(problem, config)
    controls = stages.controls(problem, separate)
    whole = []
    if isinstance(config, HopperConfig):
        whole = stages.merged_and_not(problem, config, separate)
    samples = interleave(controls + whole, rounds)
    parts = stages.split_in_place(problem, separate, rounds)
    medians = stages.median_of(parts)
    end_to_end = medians.pop("e2e")
    total = sum(medians.values())
    for name, value in medians.items():
        print(f"      stage {name}: {value:.1f} us")
        record(f"stage.{name}", value, "us", samples=parts[name])
    for kind, group in (("stage", controls), ("whole", whole)):
        for name in (each.name for each in group):
            taken = samples[name]
            print(f"      control {name}: {taken.median_us:.1f} us")
            record(f"{kind}.{name}", taken.median_us, "us", samples=taken.times_us)
    unattributed = end_to_end - total
    print(
        f"      stages sum to {total:.1f} us, one after the other they take {end_to_end:.1f} us;"
        f" unattributed {unattributed:+.1f} us ({unattributed / end_to_end:+.1%})"
    )
    record("stage.sum", total, "us")
    record("stage.e2e", end_to_end, "us", samples=parts["e2e"])
    record("stage.unattributed", unattributed / end_to_end, "1")
    if isinstance(config, HopperConfig):
        spent = stages.account(problem, config)
        told = spent.stages | {"between": spent.between_us, "idle": spent.idle_us}
        shares = ", ".join(f"{name} {value:.1f}" for name, value in told.items())
        print(f"      merged, SM time of {spent.total_us:.1f} us: {shares}")
        for name, value in told.items():
            record(f"sm_time.{name}", value, "us")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.moe.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_problem(parser)
    add_config(parser)
    parser.add_argument("--rounds", type=count, default=21 if BACKEND is Backend.GPU else 2)
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        metavar="PEER",
        default=["grouped_mm"] if BACKEND is Backend.GPU else ["eager"],
        help=f"any of {' '.join(PEERS)};"
        " with --dtype fp8 they compute on the weights before rounding",
    )
    parser.add_argument("--split", action="store_true", help="stage times and SM-time account")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
