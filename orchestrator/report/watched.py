"""The GPUs during the steps, in words: what clocks and power a number was measured under."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.report.words import harmless
from orchestrator.store.history import JobView
from orchestrator.store.watched import Spread, Watched

# Below this share a reason that held the clocks down tells nothing about a step.
TELLING_SHARE = 0.05


def sentence(seen: Watched) -> str:
    """`GPU-0a81e2c3: SM 1425 MHz (1410 to 1980), 684 W, held by sw_power_cap in 97%, busy in 9 of
    22 samples`."""
    parts = [
        _range(seen.spreads.get("sm_mhz"), "SM {} MHz"),
        _range(seen.spreads.get("power_w"), "{} W"),
        _range(seen.spreads.get("temperature_c"), "{} C"),
        *(f"held by {name} in {share:.0%}" for name, share in _telling(seen)),
        _counts(seen),
    ]
    return harmless(f"{seen.uuid[:12]}: " + ", ".join(part for part in parts if part))


def of_run(jobs: Iterable[JobView]) -> str:
    """All steps of a run in one line; empty where nobody watched."""
    watched = [job.watched for job in jobs if job.watched]
    if not watched:
        return ""
    seen = [one for job in watched for one in job]
    parts = [
        _range(_over(seen, "sm_mhz"), "SM {} MHz"),
        _range(_over(seen, "power_w"), "{} W"),
        *_reasons(watched),
    ]
    return harmless("while steps ran: " + ", ".join(part for part in parts if part))


def _reasons(jobs: Sequence[Sequence[Watched]]) -> Iterable[str]:
    """A job counts where any of its GPUs was held."""
    counts: dict[str, int] = {}
    for job in jobs:
        for name in dict.fromkeys(name for one in job for name, _ in _telling(one)):
            counts[name] = counts.get(name, 0) + 1
    for name, count in counts.items():
        yield f"held by {name} in {count} of {len(jobs)} steps"


def _counts(seen: Watched) -> str:
    samples = f"{seen.samples} sample{'' if seen.samples == 1 else 's'}"
    return samples if seen.busy is None else f"busy in {seen.busy or 'none'} of {samples}"


def _telling(seen: Watched) -> Iterable[tuple[str, float]]:
    return [(name, share) for name, share in seen.held.items() if share >= TELLING_SHARE]


def _over(seen: Sequence[Watched], name: str) -> Spread | None:
    """From the lowest to the highest of the steps' own medians: at a step's edges clocks change."""
    medians = sorted(one.spreads[name].median for one in seen if name in one.spreads)
    if not medians:
        return None
    return Spread(medians[0], medians[len(medians) // 2], medians[-1])


def _range(spread: Spread | None, words: str) -> str:
    if spread is None:
        return ""
    told = words.format(f"{spread.median:.0f}")
    low, high = f"{spread.low:.0f}", f"{spread.high:.0f}"
    return told if low == high else f"{told} ({low} to {high})"
