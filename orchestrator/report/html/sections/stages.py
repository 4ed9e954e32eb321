"""Where the time of one kernel goes: metrics called `stage.<name>`, against the end to end time.

The stages are told in the order in which they run. An experiment that also tells `stage.sum` may go
on with controls, such as a stage with a part left out: what adds up to the sum are the stages.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from orchestrator.report.html.bars import Bar, bar_chart
from orchestrator.report.html.section import Section, render
from orchestrator.report.view import RunView
from orchestrator.report.words import show_value, show_where
from orchestrator.store.results import Result

PREFIX = "stage."
SUM = "stage.sum"
WHOLE = ("stage.e2e", "e2e", "e2e.ours")
TOTALS = (*WHOLE, SUM, "stage.unattributed")
# Medians of several rounds add up to the median of their sums as closely as this.
_SAME_SUM = 0.02


@dataclass(frozen=True)
class Split:
    """The stages of one point."""

    where: str
    chart: Markup
    total: str
    rest: str
    controls: Markup
    longest: str


def section(view: RunView) -> Section | None:
    points: dict[tuple[tuple[str, Any], ...], dict[str, list[Result]]] = {}
    for result in view.results:
        if isinstance(result.value, (int, float)) and _is_stage(result.metric):
            place = points.setdefault(tuple(sorted(result.point.items(), key=str)), {})
            place.setdefault(result.metric, []).append(result)
    splits = [
        split
        for point, found in points.items()
        if (split := _split(dict(point), found)) is not None
    ]
    if not splits:
        return None
    body = render("stages.html.j2", splits=splits)
    return Section("stages", "Stages", body, f"look at {splits[0].longest}")


def _is_stage(metric: str) -> bool:
    return metric.startswith(PREFIX) or metric in WHOLE


def _split(point: Mapping[str, Any], found: Mapping[str, Sequence[Result]]) -> Split | None:
    told = {name: _centre(rs) for name, rs in found.items() if name not in TOTALS}
    if len(told) < 2:
        return None
    unit = next(rs for name, rs in found.items() if name in told)[0].unit
    count = _count_of_parts(list(told.values()), found)
    names = list(told)
    total = sum(told[name] for name in names[:count])
    where = show_where(point)
    return Split(
        where=where,
        chart=bar_chart(
            _one_behind_the_other(told, names[:count], unit), unit, f"stages at {where}"
        ),
        total=show_value(total, unit),
        rest=_rest(found, total, unit),
        longest=_longest(told, names[:count], total),
        controls=_controls(told, names[count:], unit, where, span=total),
    )


def _count_of_parts(values: Sequence[float], found: Mapping[str, Sequence[Result]]) -> int:
    """How many of the values, from the first on, are stages; the others are controls."""
    if SUM not in found:
        return len(values)
    total = _centre(found[SUM])
    gaps = [abs(so_far - total) for so_far in itertools.accumulate(values)]
    closest = min(range(len(gaps)), key=gaps.__getitem__)
    return closest + 1 if gaps[closest] <= _SAME_SUM * abs(total) else len(values)


def _one_behind_the_other(told: Mapping[str, float], names: Sequence[str], unit: str) -> list[Bar]:
    bars, start = [], 0.0
    for number, name in enumerate(names):
        label = show_value(told[name], unit)
        bars.append(Bar(name.removeprefix(PREFIX), start, told[name], f"s{number % 8}", label))
        start += max(told[name], 0.0)
    return bars


def _longest(told: Mapping[str, float], names: Sequence[str], total: float) -> str:
    name = max(names, key=told.__getitem__)
    share = f": it takes {told[name] / total:.0%} of the sum" if total > 0 else ""
    return f"{name.removeprefix(PREFIX)} first{share}"


def _controls(
    told: Mapping[str, float], names: Sequence[str], unit: str, where: str, *, span: float
) -> Markup:
    if not names:
        return Markup("")
    bars = [
        Bar(name.removeprefix(PREFIX), 0, told[name], "control", show_value(told[name], unit))
        for name in names
    ]
    return bar_chart(bars, unit, f"controls at {where}", span=span)


def _rest(found: Mapping[str, Sequence[Result]], total: float, unit: str) -> str:
    whole = next((_centre(found[name]) for name in WHOLE if name in found), None)
    if not whole:
        return ""
    return f"end to end {show_value(whole, unit)}; not in any stage {(whole - total) / whole:+.1%}"


def _centre(results: Sequence[Result]) -> float:
    return float(statistics.median(float(r.value) for r in results))
