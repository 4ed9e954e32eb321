"""Check the fused epilogues against float64 and account for their memory traffic.

    python -m kernels.epilogue.check --op gelu --m 77 --n 77 --k 38 --dtype bfloat16

Exits 1 when an output is wrong, holds NaN, or was not written everywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernels.accuracy import REL_L2_BOUND, poisoned, rel_l2, within
from kernels.epilogue import ops
from kernels.epilogue.account import Traffic, add_relu_traffic, gelu_linear_traffic
from kernels.epilogue.reference import exact_add_relu, exact_gelu_linear
from kernels.timing.record import record

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SCALE = 0.7


@dataclass(frozen=True)
class Outcome:
    """One operator checked once."""

    op: str
    error: float
    bound: float
    traffic: Traffic

    @property
    def passed(self) -> bool:
        return within(self.error, self.bound)


def check_gelu(M: int, N: int, K: int, dtype: torch.dtype, seed: int) -> Outcome:
    """Run `gelu(x @ W + b) * scale` into a poisoned output and compare with float64."""
    device = ops.BACKEND.device
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(M, K, generator=draw).to(device, dtype)
    w = (torch.randn(K, N, generator=draw) / max(K, 1) ** 0.5).to(device, dtype)
    b = torch.randn(N, generator=draw).to(device, dtype)

    out = ops.gelu_linear(x, w, b, SCALE, out=poisoned(M, N, dtype=dtype, device=device))

    error = rel_l2(out, exact_gelu_linear(x, w, b, SCALE))
    return Outcome("gelu", error, REL_L2_BOUND[dtype], gelu_linear_traffic(M, N, K, x.itemsize))


def check_relu(M: int, N: int, dtype: torch.dtype, seed: int) -> Outcome:
    """Run `relu(x + y)` into a poisoned output and compare with float64."""
    device = ops.BACKEND.device
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(M, N, generator=draw).to(device, dtype)
    y = torch.randn(M, N, generator=draw).to(device, dtype)

    out = ops.add_relu(x, y, out=poisoned(M, N, dtype=dtype, device=device))

    error = rel_l2(out, exact_add_relu(x, y))
    return Outcome("relu", error, REL_L2_BOUND[dtype], add_relu_traffic(M * N, x.itemsize))


def tell(outcome: Outcome) -> None:
    """Print one outcome for the reader and record it for the run."""
    verdict = "ok" if outcome.passed else "WRONG"
    print(
        f"{outcome.op:<5} rel L2 {outcome.error:.3e} (bound {outcome.bound:.0e}) {verdict};"
        f" bytes fused {outcome.traffic.fused_bytes:,}, eager {outcome.traffic.eager_bytes:,},"
        f" ratio {outcome.traffic.ratio:.4f}"
    )
    record(f"{outcome.op}.rel_l2", outcome.error, check={"bound": outcome.bound})
    record(f"{outcome.op}.bytes_fused", outcome.traffic.fused_bytes, "By")
    record(f"{outcome.op}.bytes_eager", outcome.traffic.eager_bytes, "By")
    record(f"{outcome.op}.bytes_ratio", outcome.traffic.ratio, "1")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.epilogue.check", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--op", choices=["gelu", "relu", "all"], default="all")
    parser.add_argument("--m", type=int, default=77, help="rows of x and of the output")
    parser.add_argument("--n", type=int, default=77, help="columns of the output")
    parser.add_argument("--k", type=int, default=38, help="inner size of the product")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bfloat16")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    dtype = DTYPES[args.dtype]
    print(f"backend {ops.BACKEND.value}: this checks {ops.BACKEND.proves}")
    record("backend", ops.BACKEND.value)

    outcomes = []
    if args.op in ("gelu", "all"):
        outcomes.append(check_gelu(args.m, args.n, args.k, dtype, args.seed))
    if args.op in ("relu", "all"):
        outcomes.append(check_relu(args.m, args.n, dtype, args.seed))
    for outcome in outcomes:
        tell(outcome)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
