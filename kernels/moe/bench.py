"""Time the fused layer beside its peers: interleaved rounds, cold L2, fresh routing.

    python -m kernels.moe.bench --shape a --peers grouped_mm --rounds 21
    python -m kernels.moe.bench --shape a --split     # stages, controls and SM-time account too
    python -m kernels.moe.bench                       # small, interpreted, without a GPU

The time of ours counts the schedule. Every output timed is checked against float64 afterwards; a
wrong one has no time. On a CPU the times are the interpreter's: they prove that the program runs,
and nothing about any GPU. They are printed, and recorded as `not_applicable`.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
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
from kernels.moe.telling import (
    OURS,
    PEER_ERROR_BOUND,
    leave_out,
    tell,
    tell_account,
    tell_floor,
    tell_ratio,
)
from kernels.timing.record import record, record_time

if TYPE_CHECKING:
    from kernels.moe.configs import Config
    from kernels.moe.problem import Problem
    from kernels.timing.ceilings import Ceilings

PEERS = ("bf16", "eager", "grouped_mm", "grouped_mm_compiled", "vllm", "sglang", "triton_kernels")


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    print(f"backend {BACKEND.value}: what runs is {BACKEND.proves}")
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
    record_time(
        "schedule", scheduled.median_us,
        samples=scheduled.times_us, timing=scheduled.as_timing() | {"scope": "host_plan"},
    )  # fmt: skip
    if correct[OURS]:
        all_well &= tell_floor(problem, samples[OURS], ceilings)
    names = kernel_names(ours)
    print(f"      launched: {', '.join(names) or 'nothing on a GPU'}")
    record("kernels", ",".join(names) or "none")
    return Told(correct[OURS], all_well)


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
        record_time(f"stage.{name}", value, samples=parts[name])
    for kind, group in (("stage", controls), ("whole", whole)):
        for name in (each.name for each in group):
            taken = samples[name]
            print(f"      control {name}: {taken.median_us:.1f} us")
            record_time(f"{kind}.{name}", taken.median_us, samples=taken.times_us)
    unattributed = end_to_end - total
    print(
        f"      stages sum to {total:.1f} us, one after the other they take {end_to_end:.1f} us;"
        f" unattributed {unattributed:+.1f} us ({unattributed / end_to_end:+.1%})"
    )
    record_time("stage.sum", total)
    record_time("stage.e2e", end_to_end, samples=parts["e2e"])
    record_time("stage.unattributed", unattributed / end_to_end, "1")
    if isinstance(config, HopperConfig):
        tell_account(stages.account(problem, config))


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
