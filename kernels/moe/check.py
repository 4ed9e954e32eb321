"""Check the fused layer: against float64, from run to run, in a graph, and its table.

    python -m kernels.moe.check --shape a --routing zipf
    python -m kernels.moe.check                       # small, interpreted, without a GPU

Exits 1 when any check fails. A CPU run shows that the kernels' source computes the right numbers;
it cannot show that their compiled code does, nor anything about races, faults or speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernels.backend import BACKEND, Backend
from kernels.moe.arguments import (
    NoSuchCallError,
    add_config,
    add_meet_twice,
    add_problem,
    call_of,
    count,
    say_what_fp8_leaves_open,
)
from kernels.timing.record import record

if TYPE_CHECKING:
    from kernels.moe.configs import Config
    from kernels.moe.problem import Problem


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    print(f"backend {BACKEND.value}: this checks {BACKEND.proves}")
    say_what_fp8_leaves_open(args)
    if BACKEND in (Backend.MODEL, Backend.COMPILE_ONLY):
        print("error: the layer needs Triton and a way to run it; nothing was checked")
        return 2
    if args.meet_twice:
        if BACKEND is not Backend.GPU:
            print("error: --meet-twice is for a compiled kernel on a GPU; nothing was checked")
            return 2
        from kernels.racecheck import meet_twice

        meet_twice()
    from triton.runtime.errors import OutOfResources

    try:
        problem, config = call_of(args)
    except NoSuchCallError as refused:
        print(f"error: {refused}; nothing was checked")
        return 2
    print(f"{problem.shape}, routing {args.routing}, {args.dtype}; {config}")
    record("backend", BACKEND.value)

    try:
        return 0 if tell_all(problem, config, args.repeats) else 1
    except OutOfResources as short:
        print(f"error: {config} does not fit this device: {short}; the check ends here")
        return 2


def tell_all(problem: Problem, config: Config, repeats: int) -> bool:
    """Make, print and record every check; whether all passed."""
    from kernels.moe.checks import LeftOut, all_checks, subject

    passed = True
    for verdict in all_checks(subject(problem, config), repeats):
        if isinstance(verdict, LeftOut):
            print(f"skip  {verdict.metric}: {verdict.why}")
            record(verdict.metric, None, status="skipped", note=verdict.why)
            continue
        print(f"{'ok   ' if verdict.passed else 'WRONG'} {verdict.said}")
        record(verdict.metric, verdict.value)
        passed &= verdict.passed
    return passed


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.moe.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_problem(parser)
    add_config(parser)
    add_meet_twice(parser)
    parser.add_argument("--repeats", type=count, default=3, help="runs compared bit by bit")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
