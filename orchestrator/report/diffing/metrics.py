"""The metrics of two runs, a line each: both centres with their ranges, and the ratio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.diff.measures.contrast import Level
from orchestrator.diff.measures.points import ORDER, MetricDiff
from orchestrator.report.diffing.cells import STATUS_STYLES, new_table, one_line, short, tally
from orchestrator.report.words import show_value, show_where

_MOST_LINES = 40


def metric_parts(metrics: Sequence[MetricDiff], stat: bool) -> Iterator[RenderableType]:
    """Counts, and unless only these are wanted, a line a metric."""
    if not metrics:
        return
    yield Text()
    counts = tally((metric.outcome for metric in metrics), ORDER)
    yield Text(f"metrics: {counts}", style="bold")
    if stat:
        return
    table = new_table()
    for title in ("", "metric", "A", "B", "B/A", "centre"):
        right = title in ("A", "B", "B/A")
        table.add_column(title, justify="right" if right else "left", no_wrap=not title or right)
    table.show_header = True
    told = ""
    for metric in metrics[:_MOST_LINES]:
        _add_metric(table, metric)
        # One reason often holds for many metrics; said once, it is read.
        reason = metric.contrast.reason
        if reason and reason != told:
            table.add_row("", Text(f"  {one_line(reason)}", style="dim"))
        told = reason
    yield table
    if len(metrics) > _MOST_LINES:
        yield Text(f"  and {len(metrics) - _MOST_LINES} more (--json)", style="dim")


def _add_metric(table: Table, metric: MetricDiff) -> None:
    found = metric.contrast
    place = f"{metric.step}[{show_where(metric.point)}]" if metric.point else metric.step
    table.add_row(
        Text(metric.outcome.replace("_", " "), style=STATUS_STYLES[metric.outcome]),
        Text.assemble(one_line(metric.metric), (f"  {one_line(place)}", "dim")),
        level_text(found.a, found.unit),
        level_text(found.b, found.unit),
        "" if found.ratio is None else ratio_text(found.ratio),
        Text(classes_of(found.a, found.b), style="dim"),
    )


def level_text(level: Level, unit: str) -> Text:
    """The centre and, in brackets, the range of the blocks and how many they are."""
    if level.point_class == "exact":
        value = "-" if level.value is None else show_value(level.value, unit)
        return Text(short(one_line(value)))
    shown = level.centre if level.centre is not None else level.median
    if shown is None:
        return Text("-")
    return Text.assemble(
        one_line(show_value(shown, unit)),
        (f" ({level.low:.4g}…{level.high:.4g}, {level.count})", "dim"),
    )


def ratio_text(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.01 <= ratio < 100 else f"{ratio:.3g}"


def classes_of(a: Level, b: Level) -> str:
    if a.point_class == "exact":
        return ""
    classes = dict.fromkeys(level.point_class.replace("_", " ") for level in (a, b))
    kind = f"{a.centre_kind}, " if a.centre_kind else ""
    return kind + " / ".join(classes)
