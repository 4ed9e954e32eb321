"""From the results of two runs to a list of metrics, each at each of its points."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.diff.measures.contrast import Contrast, Level, Outcome, Series, alone, contrast
from orchestrator.diff.measures.pointclass import Block
from orchestrator.store.results import Result
from orchestrator.verdict import units

# What must be the same for two times to mean the same.
_TIMING = ("mode", "scope", "flush")
_EXACT_UNITS = ("", "1", "By", "B", "kBy", "kB", "MBy", "MB", "GBy", "GB", "KiBy", "MiBy", "GiBy")

Key = tuple[str, str, tuple[tuple[str, str], ...]]

# Worst first: the order in which people read them.
ORDER: tuple[Outcome, ...] = (
    "different",
    "no_value",
    "only_a",
    "only_b",
    "not_comparable",
    "ambiguous",
    "measured",
    "too_few",
    "equal",
)


@dataclass(frozen=True)
class MetricDiff:
    """A metric at a point, on both sides."""

    metric: str
    step: str
    point: Mapping[str, Any]
    contrast: Contrast

    @property
    def outcome(self) -> Outcome:
        return self.contrast.outcome

    def as_json(self) -> dict[str, Any]:
        found = self.contrast
        shown: dict[str, Any] = {
            "metric": self.metric,
            "step": self.step,
            "point": dict(self.point),
            "outcome": found.outcome,
            "unit": found.unit,
            "a": found.a.as_json(),
            "b": found.b.as_json(),
        }
        if found.ratio is not None:
            shown["ratio"] = found.ratio
        if found.ratio_range is not None:
            shown["ratio_range"] = list(found.ratio_range)
        if found.reason:
            shown["reason"] = found.reason
        return shown


class _NoValue(Exception):
    """A side was recorded without a value; the text says how."""


class _Mixed(Exception):
    """One side's results do not belong together; the text says why."""


def compare(a: Sequence[Result], b: Sequence[Result], obstacle: str = "") -> list[MetricDiff]:
    """Every metric of either side at every point, worst first.

    Args:
        obstacle: why nothing of the two runs is comparable, as when a condition that makes the
            identity of the host differs; ratios are shown all the same, and never a verdict.
    """
    sides = _by_point(a), _by_point(b)
    found = []
    for key in [*sides[0], *(key for key in sides[1] if key not in sides[0])]:
        one, two = sides[0].get(key, []), sides[1].get(key, [])
        told = (one or two)[0]
        made = _contrast(one, two)
        if obstacle and made.outcome in ("measured", "too_few", "ambiguous", "equal", "different"):
            made = replace(made, outcome="not_comparable", reason=obstacle)
        found.append(MetricDiff(told.metric, told.step, told.point, made))
    return sorted(found, key=lambda diff: ORDER.index(diff.outcome))


def _by_point(results: Sequence[Result]) -> dict[Key, list[Result]]:
    found: dict[Key, list[Result]] = {}
    for result in results:
        point = tuple(sorted((axis, repr(value)) for axis, value in result.point.items()))
        found.setdefault((result.metric, result.step, point), []).append(result)
    return found


def _contrast(a: Sequence[Result], b: Sequence[Result]) -> Contrast:
    if not a or not b:
        return Contrast(
            "only_a" if a else "only_b", _alone(a, "A"), _alone(b, "B"), (a or b)[0].unit
        )
    try:
        one, two = _series(a, "A"), _series(b, "B")
        two = _in_unit(two, one.unit)
    except _NoValue as error:
        return Contrast("no_value", _alone(a, "A"), _alone(b, "B"), a[0].unit, reason=str(error))
    except (_Mixed, units.UnitMismatch) as error:
        return Contrast("not_comparable", _counted(a), _counted(b), a[0].unit, reason=str(error))
    if bool(one.exact) != bool(two.exact):
        reason = "a number on one side, something else on the other"
        return Contrast("not_comparable", _counted(a), _counted(b), one.unit, reason=reason)
    made = contrast(one, two)
    if one.timing != two.timing and not one.exact:
        return replace(made, outcome="not_comparable", reason=_timing_words(one, two))
    return made


def _alone(results: Sequence[Result], side: str) -> Level:
    """A side with nothing to compare it with; without a value where it has none to show."""
    if not results:
        return Level(0)
    try:
        return alone(_series(results, side))
    except (_NoValue, _Mixed):
        return _counted(results)


def _counted(results: Sequence[Result]) -> Level:
    return Level(len({(r.job, r.round) for r in results}))


def _series(results: Sequence[Result], side: str) -> Series:
    without = next((r for r in results if r.status != "ok"), None)
    if without is not None:
        reason = without.note or "no reason was given"
        raise _NoValue(f"recorded as {without.status.replace('_', ' ')} in {side}: {reason}")
    unit = results[0].unit
    if any(r.unit != unit for r in results):
        raise _Mixed(f"recorded in several units in {side}: {sorted({r.unit for r in results})}")
    timing = _timing(results[0])
    if any(_timing(r) != timing for r in results):
        raise _Mixed(f"timed in several ways in {side}")
    values = [r.value for r in results]
    if not all(_is_number(value) for value in values):
        return Series(unit, exact=tuple(values))
    if unit in _EXACT_UNITS and all(isinstance(value, int) for value in values):
        return Series(unit, exact=tuple(values))
    higher = "/s" in unit or unit in ("Hz", "1/s")
    return Series(unit, _blocks(results, higher, side), (), timing, higher)


def _blocks(results: Sequence[Result], higher_is_better: bool, side: str) -> tuple[Block, ...]:
    """One block a job: what one process recorded several times is still one process."""
    by_job: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        by_job.setdefault((result.job, result.round), []).append(result)
    blocks = []
    for told in by_job.values():
        samples = [value for result in told for value in (result.samples or (result.value,))]
        if not all(_is_number(value) for value in samples):
            raise _Mixed(f"a sample in {side} is no finite number")
        best = max(samples) if higher_is_better else min(samples)
        blocks.append(Block(float(statistics.median(samples)), float(best)))
    return tuple(blocks)


def _in_unit(series: Series, unit: str) -> Series:
    """The series in another unit.

    Raises:
        UnitMismatch: the units measure different things.
    """
    if series.unit == unit:
        return series
    factor = units.convert(1.0, series.unit, unit)
    blocks = tuple(Block(b.median * factor, b.best * factor) for b in series.blocks)
    exact = tuple(value * factor if _is_number(value) else value for value in series.exact)
    return replace(series, unit=unit, blocks=blocks, exact=exact)


def _timing(result: Result) -> tuple[tuple[str, Any], ...]:
    # Whatever a step recorded is here, which need not be the mapping that was asked for.
    told = result.timing if isinstance(result.timing, Mapping) else {}
    return tuple((key, str(told[key])) for key in _TIMING if key in told)


def _timing_words(a: Series, b: Series) -> str:
    one, two = dict(a.timing), dict(b.timing)
    parts = [
        f"{key} {one.get(key, 'not told')} -> {two.get(key, 'not told')}"
        for key in _TIMING
        if one.get(key) != two.get(key)
    ]
    return f"timed in another way: {', '.join(parts)}"


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number beyond every float.
        return False
