"""Metrics over the axes of a matrix: every block a dot, expectations as bands."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from orchestrator.report.html.section import Section, render
from orchestrator.report.html.svg import Band, Dot, Plot, strip_plot
from orchestrator.report.view import RunView
from orchestrator.report.words import show_value, show_where
from orchestrator.store.results import Result
from orchestrator.verdict.item import NEW, Item

MAX_PLOTS = 24
MAX_SERIES = 8
# Of a run without predictions; the others wait behind a click.
MAX_UNPREDICTED = 6


@dataclass(frozen=True)
class Sweep:
    """One metric of one step over one axis."""

    title: str
    plot: Markup
    legend: Sequence[str]
    best: str
    is_curve: bool
    is_predicted: bool
    has_bands: bool


def section(view: RunView) -> Section | None:
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in view.results:
        if _is_number(result.value) and result.point and not result.metric.startswith("stage."):
            groups.setdefault((result.step, result.metric), []).append(result)
    found = [sweep for group in groups.values() if (sweep := _sweep(group, view)) is not None]
    if not found:
        return None
    found.sort(key=lambda sweep: not sweep.is_predicted)
    drawn = found[:MAX_PLOTS]
    shown = [sweep for sweep in drawn if sweep.is_predicted] or drawn[:MAX_UNPREDICTED]
    body = render(
        "sweeps.html.j2",
        shown=shown,
        others=drawn[len(shown) :],
        hidden=[sweep.title for sweep in found[MAX_PLOTS:]],
        has_bands=any(sweep.has_bands for sweep in shown),
    )
    return Section("sweeps", "Sweeps", body, _next(found))


def _next(found: Sequence[Sweep]) -> str:
    if any(sweep.is_curve for sweep in found):
        return "a curve that has not levelled off at its end wants one more value of that axis"
    return ""


def _sweep(group: Sequence[Result], view: RunView) -> Sweep | None:
    axis = _main_axis(group)
    if axis is None:
        return None
    group = [r for r in group if axis in r.point]
    ticks = sorted({r.point[axis] for r in group}, key=_order)
    places = {value: float(n) for n, value in enumerate(ticks)}
    is_curve = all(map(_is_number, ticks))
    named = [(_series(r, axis), r) for r in group]
    names = sorted({name for name, _ in named})[:MAX_SERIES]
    numbers = {name: number for number, name in enumerate(names)}
    drawn = [(numbers[name], r) for name, r in named if name in numbers]
    kept = [r for _, r in drawn]
    dots = [
        Dot(places[r.point[axis]], value, f"{show_where(r.point)}: {show_value(value, r.unit)}",
            number)
        for number, r in drawn for value in (_numbers(r.samples) or [float(r.value)])
    ]  # fmt: skip
    measured: dict[tuple[int, Any], list[float]] = {}
    for number, r in drawn:
        measured.setdefault((number, r.point[axis]), []).append(float(r.value))
    lines = [
        (number, [
            (places[tick], statistics.median(measured[number, tick]))
            for tick in ticks if (number, tick) in measured
        ])
        for number in numbers.values()
    ]  # fmt: skip
    first = group[0]
    plot = Plot(
        title=f"{first.metric} of {first.step}",
        x_label=axis,
        y_label=f"{first.metric} ({first.unit})" if first.unit not in ("", "1") else first.metric,
        x_ticks=[(places[tick], str(tick)) for tick in ticks],
        dots=dots,
        bands=_bands(kept, axis, places, names, view),
        lines=[(n, points) for n, points in lines if is_curve and len(points) > 1],
        series=names,
    )
    return Sweep(
        title=plot.title,
        plot=strip_plot(plot),
        legend=names if names != [""] else [],
        best=_best(kept),
        is_curve=is_curve,
        has_bands=bool(plot.bands),
        is_predicted=any(_speaks_of(item, first) for item in view.items),
    )


def _main_axis(group: Sequence[Result]) -> str | None:
    """The axis with most values; a number before text, and none when nothing varies."""
    axes: dict[str, set[Any]] = {}
    for result in group:
        for axis, value in result.point.items():
            axes.setdefault(axis, set()).add(value)
    varying = {axis: values for axis, values in axes.items() if len(values) > 1}
    if not varying:
        return None
    return max(varying, key=lambda a: (all(map(_is_number, varying[a])), len(varying[a])))


def _series(result: Result, axis: str) -> str:
    return show_where({a: v for a, v in result.point.items() if a != axis})


def _bands(
    group: Sequence[Result],
    axis: str,
    places: Mapping[Any, float],
    names: Sequence[str],
    view: RunView,
) -> list[Band]:
    """Intervals that the ledger expects at these points, closed on both sides, in their unit."""
    found = []
    first = group[0]
    for item in view.items:
        if not _speaks_of(item, first) or item.where.get(axis) not in places:
            continue
        if item.bounds is None or item.is_ratio or (item.unit or "1") != (first.unit or "1"):
            continue
        low, high = item.bounds
        meant = next((_series(r, axis) for r in group if _is_at(r, item.where)), None)
        if low is not None and high is not None and meant is not None:
            label = f"{item.id}: {item.expected}" + (f", for {meant}" if meant else "")
            found.append(Band(places[item.where[axis]], low, high, label, names.index(meant)))
    return found


def _is_at(result: Result, where: Mapping[str, Any]) -> bool:
    return all(result.point.get(axis) == value for axis, value in where.items())


def _speaks_of(item: Item, result: Result) -> bool:
    """Whether a prediction was made of this metric of this step."""
    return item.status != NEW and item.metric == result.metric and item.step == result.step


def _best(group: Sequence[Result]) -> str:
    low = min(group, key=lambda r: float(r.value))
    high = max(group, key=lambda r: float(r.value))
    if low.value == high.value:
        return f"{show_value(low.value, low.unit)} everywhere"
    return (
        f"lowest {show_value(low.value, low.unit)} at {show_where(low.point)}; "
        f"highest {show_value(high.value, high.unit)} at {show_where(high.point)}"
    )


def _numbers(samples: Sequence[Any]) -> list[float]:
    return [float(s) for s in samples[:200] if _is_number(s)]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _order(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if _is_number(value) else (1, 0.0, str(value))
