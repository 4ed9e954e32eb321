"""What a benchmark prints and records of its samples: times, ratios, and the floor below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernels.timing.record import record, record_time

if TYPE_CHECKING:
    from kernels.moe.problem import Problem
    from kernels.moe.stages import Account
    from kernels.timing.ceilings import Ceilings
    from kernels.timing.rounds import Samples

OURS = "ours"
PEER_ERROR_BOUND = 1e-2
# The ceilings are measured in other rounds, and reach their best to within a percent or two.
FLOOR_SLACK = 0.02


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
    record_time(
        metric, samples.median_us, samples=samples.times_us,
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
    record_time(f"ratio.{name}", ratio, "1")


def tell_floor(problem: Problem, samples: Samples, ceilings: Ceilings | None) -> bool:
    """Compare with what the operations and bytes need at this run's own ceilings.

    A time below that by more than FLOOR_SLACK is an error.
    """
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
    if fraction > 1 + FLOOR_SLACK:
        print("WRONG faster than the floor: the time does not count all of the work")
        record("fraction", None, "1", status="error", note=f"{fraction:.3f}: faster than the floor")
        return False
    record("fraction", fraction, "1")
    return True


def tell_account(spent: Account) -> None:
    """Print and record the SM time of one merged launch, unless the trace could not hold it."""
    from kernels.moe.stages import TRACED_ITEMS

    told = spent.stages | {"between": spent.between_us, "idle": spent.idle_us}
    if spent.full:
        reason = f"{spent.full} programs filled the {TRACED_ITEMS} items that are traced of each"
        print(f"      merged, SM time: none, {reason}")
        for name in told:
            record(f"sm_time.{name}", None, "us", status="not_applicable", note=reason)
        return
    shares = ", ".join(f"{name} {value:.1f}" for name, value in told.items())
    print(f"      merged, SM time of {spent.total_us:.1f} us: {shares}")
    for name, value in told.items():
        record(f"sm_time.{name}", value, "us")
