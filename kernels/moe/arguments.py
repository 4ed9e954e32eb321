"""Command-line arguments that check, bench and tune share."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from kernels.backend import BACKEND, Backend
from kernels.moe.configs import Config, HopperConfig, PortableConfig
from kernels.moe.routing import KINDS
from kernels.moe.shapes import NAMED, Shape

if TYPE_CHECKING:
    from kernels.moe.problem import Problem

DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "fp8": torch.float8_e4m3fn,
}


def count(text: str) -> int:
    """A whole number from 1 on; what no check and no time can be of is refused."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def whole(text: str) -> int:
    """A whole number from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


def seed(text: str) -> int:
    """A number that torch's generators take."""
    number = int(text)
    if not 0 <= number < 1 << 63:
        raise argparse.ArgumentTypeError(f"{number} is not from 0 to 2^63 - 1")
    return number


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Size, routing, dtype and seed of the layer call."""
    size = parser.add_argument_group("size; a named shape, with single axes overridden")
    size.add_argument("--shape", choices=sorted(NAMED), help="default: tiny on a CPU, a on a GPU")
    for axis in ("tokens", "top-k", "experts", "hidden", "inter"):
        size.add_argument(f"--{axis}", type=count)
    parser.add_argument("--routing", choices=KINDS, default="uniform")
    parser.add_argument(
        "--dtype",
        choices=sorted(DTYPES),
        default="bfloat16",
        help="fp8: e4m3 weights in 128 x 128 blocks, bfloat16 activations rounded on the way",
    )
    parser.add_argument("--seed", type=seed, default=0)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Overrides of the chosen variant."""
    variant = parser.add_argument_group("variant; default: the measured table, else by size")
    variant.add_argument("--path", choices=["hopper", "portable"])
    variant.add_argument("--rows", type=count, help="rows of a tile's body")
    variant.add_argument("--tail", type=count, help="rows that ride along (hopper)")
    variant.add_argument("--stages", type=count, dest="ring_stages", help="pipeline depth")
    variant.add_argument("--late", type=whole, help="columns of layer 1 left to the end (hopper)")
    variant.add_argument(
        "--wide",
        action=argparse.BooleanOptionalAction,
        help="fill tails where it saves a tile (hopper)",
    )


def add_meet_twice(parser: argparse.ArgumentParser) -> None:
    """The switch for a race detector, see `kernels.racecheck`."""
    parser.add_argument(
        "--meet-twice",
        action="store_true",
        help="double the barriers between warp partitions (hopper), without which racecheck"
        " reports every warp-specialised kernel",
    )


HOPPER_ONLY = ("tail", "late", "wide")


class NoSuchCallError(Exception):
    """The arguments name no layer call, or a variant that cannot run it."""


def shape_of(args: argparse.Namespace) -> Shape:
    """The named shape with single axes overridden.

    Raises:
        NoSuchCallError: no routing can have it.
    """
    named = NAMED[args.shape or ("a" if BACKEND is Backend.GPU else "tiny")]
    given = {
        axis: getattr(args, axis)
        for axis in ("tokens", "top_k", "experts", "hidden", "inter")
        if getattr(args, axis) is not None
    }
    shape = replace(named, **given)
    if shape.top_k > shape.experts:
        raise NoSuchCallError(
            f"top-k {shape.top_k} of {shape.experts} experts: a token cannot choose one twice"
        )
    return shape


def call_of(args: argparse.Namespace) -> tuple[Problem, Config]:
    """Operands of the asked call, drawn, and the variant to run.

    Raises:
        NoSuchCallError: there is no such call, no memory for it, or the variant cannot run it here.
    """
    from kernels.moe.layer import chosen_config
    from kernels.moe.problem import draw_problem

    shape = shape_of(args)
    try:
        problem = draw_problem(shape, args.routing, DTYPES[args.dtype], args.seed)
    except (RuntimeError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NoSuchCallError(f"no room for the operands of {shape}: {reason}") from error
    chosen = chosen_config(problem.shape, problem.x, problem.w13, problem.w2)
    return problem, config_of(args, chosen, problem)


def config_of(args: argparse.Namespace, chosen: Config, problem: Problem) -> Config:
    """The chosen variant with the overrides applied; a path named there starts from its default.

    Raises:
        NoSuchCallError: it cannot run here or on these operands, or has not what is overridden.
    """
    from kernels.moe.operands import suits_hopper
    from kernels.moe.workspace import unsuited

    config = _overridden(args, chosen)
    reason = unsuited(config, scaled=problem.scaled)
    if reason is None and isinstance(config, HopperConfig):
        reason = suits_hopper(problem.x, problem.w13, problem.w2)
    if reason:
        raise NoSuchCallError(f"{config} cannot run: {reason}")
    return config


def _overridden(args: argparse.Namespace, chosen: Config) -> Config:
    if args.path == "hopper" and not isinstance(chosen, HopperConfig):
        chosen = HopperConfig()
    if args.path == "portable" and not isinstance(chosen, PortableConfig):
        chosen = PortableConfig(128, 64, 32, 8, 2)
    if isinstance(chosen, HopperConfig):
        names = {"rows": "body", "tail": "tail", "ring_stages": "stages"}
        names |= {"late": "late", "wide": "wide"}
        if args.rows == 64 and args.tail is None and args.ring_stages is None:
            # A 64-row body leaves room for a fifth stage, and short tails suit it.
            chosen = replace(chosen, tail=32, stages=5, producer_registers=48, wide=False)
    else:
        names = {"rows": "rows", "ring_stages": "stages"}
        foreign = [f"--{name}" for name in HOPPER_ONLY if getattr(args, name) is not None]
        if foreign:
            belong = "belongs" if len(foreign) == 1 else "belong"
            raise NoSuchCallError(
                f"{' and '.join(foreign)} {belong} to the Hopper path,"
                " this call goes the portable way"
            )
    given = {
        ours: getattr(args, theirs)
        for theirs, ours in names.items()
        if getattr(args, theirs) is not None
    }
    return replace(chosen, **given)


def say_what_fp8_leaves_open(args: argparse.Namespace) -> None:
    """Tell that a machine without e4m3 products runs other source than one with them."""
    if args.dtype == "fp8" and BACKEND is Backend.INTERPRETER:
        print(
            "fp8 here widens its operands, as sm_80 and AMD do: products of e4m3 (sm_89, sm_90),"
            " their precision and their rounding instructions are not run"
        )
