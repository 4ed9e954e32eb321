"""Where the time of one kernel goes: metrics called `stage.<name>`, against the end to end time."""

from __future__ import annotations

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
WHOLE = ("e2e", "stage.e2e", "e2e.ours")


@dataclass(frozen=True)
class Split:
    """The stages of one point."""

    where: str
    chart: Markup
    total: str
    rest: str


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
    return Section("stages", "Stages", body, "the longest bar is the next thing to look at")


def _is_stage(metric: str) -> bool:
    return metric.startswith(PREFIX) or metric in WHOLE


def _split(point: Mapping[str, Any], found: Mapping[str, Sequence[Result]]) -> Split | None:
    stages = {name: _centre(rs) for name, rs in found.items() if name not in WHOLE}
    if len(stages) < 2:
        return None
    unit = next(iter(found.values()))[0].unit
    bars = [
        Bar(name.removeprefix(PREFIX), 0, value, f"s{n % 8}", show_value(value, unit))
        for n, (name, value) in enumerate(stages.items())
    ]
    whole = next((_centre(found[name]) for name in WHOLE if name in found), None)
    total = sum(stages.values())
    rest = ""
    if whole is not None:
        share = (whole - total) / whole if whole else 0.0
        rest = f"end to end {show_value(whole, unit)}; unattributed {share:+.1%}"
    where = show_where(point)
    chart = bar_chart(bars, unit, f"stages at {where}")
    return Split(where, chart, show_value(total, unit), rest)


def _centre(results: Sequence[Result]) -> float:
    return float(statistics.median(float(r.value) for r in results))
