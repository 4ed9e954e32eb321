"""Measure variants of the layer and write the fastest right one to the configuration table.

    python -m kernels.moe.tune --shapes a b c --write

Candidates of one size are checked first, then timed in the same rounds beside torch's grouped_mm.
A candidate that is wrong, or fails to launch, is reported and cannot win. Needs the GPU it is for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from kernels.backend import BACKEND, Backend
from kernels.moe.arguments import DTYPES, count, seed
from kernels.moe.routing import KINDS
from kernels.moe.shapes import NAMED, Shape
from kernels.timing.record import record

LATES = (1, 2)
"""Column tiles of layer 1 that come after all others."""

if TYPE_CHECKING:
    from kernels.moe.configs import Config
    from kernels.moe.problem import Problem


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    if BACKEND is not Backend.GPU:
        print(f"error: tuning measures a GPU; the backend here is {BACKEND.value}")
        return 2
    import torch
    import triton

    from kernels.moe.configs import Entry, as_text, load, save
    from kernels.moe.problem import draw_problem

    dtype = DTYPES[args.dtype]
    entries = list(load())
    failed = False
    for name in args.shapes:
        problem = draw_problem(NAMED[name], args.routing, dtype, args.seed)
        found = tune(name, problem, candidates(problem.shape, scaled=problem.scaled), args.rounds)
        if found is None:
            failed = True
            continue
        best, best_us = found
        shape = problem.shape
        entry = Entry(
            device=torch.cuda.get_device_name(),
            dtype=str(problem.w13.dtype).removeprefix("torch."),
            top_k=shape.top_k,
            experts=shape.experts,
            hidden=shape.hidden,
            inter=shape.inter,
            tokens=(shape.tokens // 2 + 1, shape.tokens * 2 - 1),
            config=best,
            triton=triton.__version__,
            evidence=f"{best_us:.1f} us; tune --shapes {name} --routing {args.routing}"
            f" --rounds {args.rounds}, {date.today()}",
        )
        entries = [old for old in entries if not _same_place(old, entry)] + [entry]
    if args.write:
        try:
            save(tuple(entries))
        except OSError as error:
            print(f"error: {error.filename} cannot be written: {error.strerror}; it would hold:")
            print(as_text(tuple(entries)), end="")
            return 2
        print("wrote the configuration table")
    return 1 if failed else 0


def candidates(shape: Shape, *, scaled: bool = False) -> list[Config]:
    """Variants worth measuring for this many rows an expert."""
    from kernels.moe.configs import HopperConfig, PortableConfig

    if scaled:
        # Bodies of 128 rows are not among them: their two accumulators spill.
        return [
            PortableConfig(rows, 128, inner, warps, stages)
            for rows, warps in ((16, 4), (64, 8))
            for inner in (64, 128)
            for stages in (2, 3, 4)
        ]
    rows = shape.tokens * shape.top_k / shape.experts
    if rows <= 40:
        return [HopperConfig(64, tail, 5, 48, late=late) for tail in (16, 32) for late in LATES]
    found = [HopperConfig(late=late) for late in LATES]
    found += [HopperConfig(group=group) for group in (1, 4)]
    found += [HopperConfig(128, 64, 4, 56, wide=True, late=late) for late in LATES]
    if rows <= 96:
        found += [HopperConfig(64, 64, 4, 48), HopperConfig(64, 32, 5, 48)]
    return found


def tune(
    name: str, problem: Problem, tried: Sequence[Config], rounds: int
) -> tuple[Config, float] | None:
    """The fastest right candidate and its microseconds, or None; tells of every one."""
    import torch
    from triton.errors import TritonError

    from kernels.accuracy import rel_l2, within
    from kernels.moe.layer import moe, reserve
    from kernels.moe.peers import UnavailableError, grouped_mm
    from kernels.timing.rounds import Timed, interleave

    x = problem.x
    truth = problem.reference()
    out = torch.empty_like(x)
    timed = []
    for config in tried:
        try:
            workspace = reserve(problem.shape, config, x.dtype, x.device, scaled=problem.scaled)
            out.fill_(float("nan"))
            moe(
                x, problem.w13, problem.w2, problem.ids, problem.weights,
                workspace=workspace, out=out,
            )  # fmt: skip
            error = rel_l2(out, truth)
        except (RuntimeError, ValueError, TritonError) as refused:
            print(f"{name}: {config} did not run: {refused}")
            continue
        if not within(error, problem.bound):
            print(f"{name}: {config} is wrong: relative L2 error {error:.3e}")
            continue

        def run(space: object = workspace) -> None:
            moe(
                x, problem.w13, problem.w2, problem.ids, problem.weights,
                workspace=space, out=out,  # type: ignore[arg-type]
            )  # fmt: skip

        timed.append((config, Timed(str(config), run, problem.fresh)))
    if not timed:
        return None
    anchors = []
    try:
        peer = grouped_mm(problem.unquantised())
        anchors.append(Timed("grouped_mm", peer.run, problem.fresh))
    except UnavailableError as reason:
        print(f"{name}: no anchor: {reason}")
    samples = interleave([each for _, each in timed] + anchors, rounds)
    anchor = samples.get("grouped_mm")
    if anchor:
        print(f"{name}: {anchor.median_us:8.1f} us grouped_mm")
    best = min((samples[each.name].median_us, at) for at, (_, each) in enumerate(timed))[1]
    for at, (config, each) in enumerate(timed):
        taken = samples[each.name]
        ratio = f"{taken.ratio_to(anchor):.3f} of grouped_mm" if anchor else ""
        mark = "<- fastest" if at == best else ""
        print(f"{name}: {taken.median_us:8.1f} us {ratio} {config} {mark}")
        record(
            "tune", taken.median_us, "us",
            samples=taken.times_us, point={"shape": name, "config": str(config)},
        )  # fmt: skip
    return timed[best][0], samples[timed[best][1].name].median_us


def _same_place(old: object, new: object) -> bool:
    places = ("device", "dtype", "top_k", "experts", "hidden", "inter", "tokens")
    return all(getattr(old, place) == getattr(new, place) for place in places)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.moe.tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--shapes", nargs="+", choices=sorted(NAMED), default=["a"])
    parser.add_argument("--routing", choices=KINDS, default="uniform")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "fp8"], default="bfloat16")
    parser.add_argument("--rounds", type=count, default=13)
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--write", action="store_true", help="update kernels/moe/configs.json")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
