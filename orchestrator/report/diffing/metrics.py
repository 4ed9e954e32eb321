"""The metrics of two runs, a line each: both centres with their ranges, and the ratio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.diff.measures.contrast import Level
from orchestrator.diff.measures.points import ORDER, MetricDiff
from orchestrator.report.diffing.cells import STATUS_STYLES, new_table, one_line, short, tally
from orchestrator.report.words import show_value, show_where

_MOST_LINES = 40
_INDENT = 4
_UNBOUNDED = 10_000


def metric_parts(metrics: Sequence[MetricDiff], stat: bool) -> Iterator[RenderableType]:
    """Counts, and unless only these are wanted, a line a metric."""
    if not metrics:
        return
    yield Text()
    counts = tally((metric.outcome for metric in metrics), ORDER)
    yield Text(f"metrics: {counts}", style="bold")
    if stat:
        return
    yield _Listing(metrics[:_MOST_LINES])
    if len(metrics) > _MOST_LINES:
        yield Text(f"  and {len(metrics) - _MOST_LINES} more (--json)", style="dim")


@dataclass(frozen=True)
class _Listing:
    """A table where it fits whole, else every metric on a line with its numbers indented below."""

    metrics: Sequence[MetricDiff]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bare = _table(self.metrics, reasons=False)
        wanted = console.measure(bare, options=options.update_width(_UNBOUNDED)).maximum
        if wanted <= options.max_width:
            yield _table(self.metrics)
            return
        told = ""
        for metric in self.metrics:
            yield from _block(metric, told, options.max_width)
            told = metric.contrast.reason


def _table(metrics: Sequence[MetricDiff], *, reasons: bool = True) -> Table:
    table = new_table()
    for title in ("", "metric", "A", "B", "B/A", "centre"):
        right = title in ("A", "B", "B/A")
        table.add_column(title, justify="right" if right else "left", no_wrap=not title or right)
    table.show_header = True
    told = ""
    for metric in metrics:
        _add_metric(table, metric)
        # One reason often holds for many metrics; said once, it is read.
        reason = metric.contrast.reason
        if reasons and reason and reason != told:
            table.add_row("", Text(f"  {one_line(reason)}", style="dim"))
        told = reason
    return table


def _add_metric(table: Table, metric: MetricDiff) -> None:
    found = metric.contrast
    table.add_row(
        _outcome(metric),
        _name(metric),
        level_text(found.a, found.unit),
        level_text(found.b, found.unit),
        "" if found.ratio is None else ratio_text(found.ratio),
        Text(classes_of(found.a, found.b), style="dim"),
    )


def _block(metric: MetricDiff, told: str, width: int) -> Iterator[RenderableType]:
    """One metric where the width is short: its name, then as many numbers a line as fit whole."""
    found = metric.contrast
    yield Text.assemble(_outcome(metric), "  ", _name(metric), overflow="fold")
    parts = [
        Text.assemble(("A ", "dim"), level_text(found.a, found.unit)),
        Text.assemble(("B ", "dim"), level_text(found.b, found.unit)),
    ]
    parts += [] if found.ratio is None else [Text(f"B/A {ratio_text(found.ratio)}")]
    classes = classes_of(found.a, found.b)
    parts += [Text(classes, style="dim")] if classes else []
    line = Text()
    for part in parts:
        if line and line.cell_len + 3 + part.cell_len > width - _INDENT:
            yield Padding(line, (0, 0, 0, _INDENT))
            line = Text()
        line = Text.assemble(line, "   ", part) if line else part
    yield Padding(line, (0, 0, 0, _INDENT))
    if found.reason and found.reason != told:
        yield Padding(Text(one_line(found.reason), style="dim"), (0, 0, 0, _INDENT))


def _outcome(metric: MetricDiff) -> Text:
    return Text(metric.outcome.replace("_", " "), style=STATUS_STYLES[metric.outcome])


def _name(metric: MetricDiff) -> Text:
    place = f"{metric.step}[{show_where(metric.point)}]" if metric.point else metric.step
    return Text.assemble(one_line(metric.metric), (f"  {one_line(place)}", "dim"))


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
    """The kind of centre and the class of both sides; empty for what has no blocks to class."""
    known = [level for level in (a, b) if level.median is not None]
    classes = dict.fromkeys(level.point_class.replace("_", " ") for level in known)
    kind = f"{a.centre_kind}, " if a.centre_kind else ""
    return kind + " / ".join(classes)
