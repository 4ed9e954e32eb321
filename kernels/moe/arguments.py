"""Command-line arguments that check, bench and tune share."""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch

from kernels.backend import BACKEND, Backend
from kernels.moe.configs import Config, HopperConfig, PortableConfig
from kernels.moe.routing import KINDS
from kernels.moe.shapes import NAMED, Shape

DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "fp8": torch.float8_e4m3fn,
}


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Size, routing, dtype and seed of the layer call."""
    size = parser.add_argument_group("size; a named shape, with single axes overridden")
    size.add_argument("--shape", choices=sorted(NAMED), help="default: tiny on a CPU, a on a GPU")
    size.add_argument("--tokens", type=int)
    size.add_argument("--top-k", type=int)
    size.add_argument("--experts", type=int)
    size.add_argument("--hidden", type=int)
    size.add_argument("--inter", type=int)
    parser.add_argument("--routing", choices=KINDS, default="uniform")
    parser.add_argument(
        "--dtype",
        choices=sorted(DTYPES),
        default="bfloat16",
        help="fp8: e4m3 weights in 128 x 128 blocks, bfloat16 activations rounded on the way",
    )
    parser.add_argument("--seed", type=int, default=0)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Overrides of the chosen variant."""
    variant = parser.add_argument_group("variant; default: the measured table, else by size")
    variant.add_argument("--path", choices=["hopper", "portable"])
    variant.add_argument("--rows", type=int, help="rows of a tile's body")
    variant.add_argument("--tail", type=int, help="rows that ride along (hopper)")
    variant.add_argument("--stages", type=int, dest="ring_stages", help="pipeline depth")
    variant.add_argument("--late", type=int, help="columns of layer 1 left to the end (hopper)")
    variant.add_argument(
        "--wide", action=argparse.BooleanOptionalAction, help="fill tails where it saves a tile"
    )


def shape_of(args: argparse.Namespace) -> Shape:
    named = NAMED[args.shape or ("a" if BACKEND is Backend.GPU else "tiny")]
    given = {
        axis: getattr(args, axis)
        for axis in ("tokens", "top_k", "experts", "hidden", "inter")
        if getattr(args, axis) is not None
    }
    return replace(named, **given)


def config_of(args: argparse.Namespace, chosen: Config) -> Config:
    """The chosen variant with the overrides applied; a path named there starts from its default."""
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
