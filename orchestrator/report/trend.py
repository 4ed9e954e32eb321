"""A trend in the terminal: one line for each round, with what changed before it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.report.words import harmless, show_value, show_where
from orchestrator.verdict.trend import Round, Trend

MAX_TRENDS = 12
_PLAIN_WIDTH = 200
_BAR = 24


def show(found: Sequence[Trend], console: Console | None = None) -> None:
    """Write the trends; beyond a dozen points, say how to narrow them."""
    out = console or Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    for trend in found[:MAX_TRENDS]:
        where = show_where(trend.point)
        out.print(Text.assemble((trend.metric, "bold"), f"  {trend.step}", f"  {where}"))
        out.print(_table(trend))
    if len(found) > MAX_TRENDS:
        out.print(f"and {len(found) - MAX_TRENDS} more points; narrow them with --where axis=value")


def as_json(found: Sequence[Trend]) -> list[Mapping[str, Any]]:
    return [asdict(trend) for trend in found]


def _table(trend: Trend) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("round", "run"):
        table.add_column(header, no_wrap=True)
    table.add_column(trend.metric, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("before", justify="right", no_wrap=True)
    table.add_column("what changed")
    most = max((r.value for r in trend.rounds if r.value is not None), default=0.0)
    for number, one in enumerate(trend.rounds, 1):
        value = "-" if one.value is None else show_value(one.value, trend.unit)
        ratio = "" if one.ratio is None else f"x{one.ratio:.3f}"
        table.add_row(str(number), one.run_id, value, _bar(one, most), ratio, _changes(one))
    return table


def _bar(one: Round, most: float) -> str:
    if one.value is None or most <= 0 or one.value < 0:
        return ""
    return "▇" * max(1, round(_BAR * one.value / most))


def _changes(one: Round) -> Text:
    return Text("; ".join(map(harmless, _words(one))), style="yellow" if one.changes else "dim")


def _words(one: Round) -> Iterable[str]:
    if one.note:
        yield one.note
    yield from one.changes[:4]
    if len(one.changes) > 4:
        yield f"and {len(one.changes) - 4} more"
    if one.value is None:
        yield f"not measured: {one.why}"
