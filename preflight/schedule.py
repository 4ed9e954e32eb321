"""A schedule's numbers against the rules that cost whole rounds: order, residency, waves, rows.

Pure arithmetic over lists, so that it runs on the laptop before anything is uploaded, and on the
host beside the kernel that built the table.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class ScheduleProblem:
    """One broken rule: what the numbers say, what follows, what to do, which pitfall."""

    check: str
    pitfall: int
    message: str
    consequence: str
    help: str

    def __str__(self) -> str:
        return f"error[schedule-{self.check}] {self.message}; {self.consequence}; {self.help}"


def check_order(consumption: Sequence[Hashable], pull: Sequence[Hashable]) -> list[ScheduleProblem]:
    """Pitfall 5: chunks must be pulled in the order in which the GEMM consumes them.

    Both sequences name chunks; each chunk that is consumed must be pulled exactly once.
    """
    missing = [chunk for chunk in consumption if chunk not in set(pull)]
    if missing:
        return [_order(f"chunk `{missing[0]}` is consumed and never pulled ({len(missing)} such)")]
    if len(set(pull)) != len(pull):
        return [_order("a chunk is pulled twice")]
    extra = [chunk for chunk in pull if chunk not in set(consumption)]
    if extra:
        return [_order(f"chunk `{extra[0]}` is pulled and never consumed ({len(extra)} such)")]
    for place, (wanted, given) in enumerate(zip(consumption, pull, strict=True)):
        if wanted != given:
            late = list(pull).index(wanted) - place
            text = (
                f"position {place} consumes chunk `{wanted}`, the pull order brings `{given}` "
                "there "
                f"and `{wanted}` {late} positions later"
            )
            return [_order(text)]
    return []


def _order(message: str) -> ScheduleProblem:
    return ScheduleProblem(
        "order",
        5,
        message,
        "the fine-grained signals do nothing and the GEMM waits for the whole communication",
        "sort the pull order by the consumption order; nearest-first fails as soon as sources mix",
    )


def check_residency(
    spinning_blocks: int, sms: int, blocks_per_sm: int = 1, reserved_sms: int = 1
) -> list[ScheduleProblem]:
    """Pitfall 7: spinning blocks must leave room for the block whose signal they wait for.

    Capacity is `(sms - reserved_sms) * blocks_per_sm`, the latter from an occupancy query.
    """
    capacity = (sms - reserved_sms) * blocks_per_sm
    if 0 <= spinning_blocks <= capacity:
        return []
    return [
        ScheduleProblem(
            "residency",
            7,
            f"{spinning_blocks} spinning blocks, and {sms} SMs hold {capacity} beside the "
            "signal's source",
            "the source never becomes resident, and the whole card deadlocks",
            f"launch at most {capacity} spinning blocks, and keep what they wait for resident",
        )
    ]


def waves(jobs: int, blocks: int) -> int:
    """Waves of a launch with one block a job on `blocks` resident blocks."""
    return ceil(jobs / blocks)


def check_waves(
    jobs: int, sms: int, blocks_per_sm: int = 1, wave_cost_us: float | None = None, most: int = 1
) -> list[ScheduleProblem]:
    """Pitfall 6: one block a job queues in `ceil(jobs / resident)` waves.

    `wave_cost_us` turns the waves into the time they cost, the closed form to compare a sweep with.
    """
    count = waves(jobs, sms * blocks_per_sm)
    if count <= most:
        return []
    cost = f", {count * wave_cost_us:g} us at {wave_cost_us:g} us a wave" if wave_cost_us else ""
    return [
        ScheduleProblem(
            "waves",
            6,
            f"{jobs} jobs on {sms} SMs run in {count} waves{cost}",
            "the time depends on the number of SMs and grows with the jobs, whatever the bandwidth",
            "launch resident blocks, hand out jobs with an atomic counter in ready order, and let "
            "all finish together",
        )
    ]


def check_rows(observed: Sequence[int]) -> list[ScheduleProblem]:
    """Pitfall 3: the row-permutation probe.

    Run the kernel on a matrix whose row r holds r everywhere; `observed[r]` is what row r holds
    after the store. Anything but the identity means that loading and storing disagree on the
    rows.
    """
    size = len(observed)
    moved = [row for row in range(size) if observed[row] != row]
    if not moved:
        return []
    if sorted(observed) != list(range(size)):
        lost = sorted(set(range(size)) - set(observed))
        text = f"rows are lost: {len(lost)} of {size} appear nowhere, row {lost[0]} first"
    else:
        first = moved[0]
        run = _run_length(observed, first)
        text = (
            f"{len(moved)} of {size} rows are permuted: rows {first} to {first + run - 1} hold "
            f"{observed[first]} to {observed[first + run - 1]}"
        )
    return [
        ScheduleProblem(
            "rows",
            3,
            text,
            "the result is almost right, and a tolerance hides it",
            "use one permutation formula for load and store, and derive it again when the number "
            "of warps changes",
        )
    ]


def _run_length(observed: Sequence[int], start: int) -> int:
    """Length of the contiguous run of rows that moved together."""
    length = 1
    while (
        start + length < len(observed)
        and observed[start + length] == observed[start] + length
        and observed[start + length] != start + length
    ):
        length += 1
    return length
