"""A trend in the terminal: one line for each round, with what changed before it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from orchestrator.report.words import harmless, show_value, show_where
from orchestrator.verdict.trend import Round, Trend

MAX_TRENDS = 12
_PLAIN_WIDTH = 200
_MAX_CHANGES = 6
_MAX_FILES = 3
_BAR, _SHORTEST_BAR = 24, 6
_GAP = "  "
_INDENT = 7
_HEADER = ("round", "run", "value", "before")


def show(found: Sequence[Trend], console: Console | None = None) -> None:
    """Write the trends; beyond a dozen points, say how to narrow them.

    What changed before a round stands behind its number, or below where the line is too short.
    """
    out = console or Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    for trend in found[:MAX_TRENDS]:
        place = (trend.experiment, trend.step, show_where(trend.point))
        words = "".join(_GAP + harmless(part) for part in place if part)
        out.print(Text.assemble((trend.metric, "bold"), words))
        _show_rounds(trend, out)
    if len(found) > MAX_TRENDS:
        out.print(f"and {len(found) - MAX_TRENDS} more points; narrow them with --where axis=value")


def as_json(found: Sequence[Trend]) -> list[Mapping[str, Any]]:
    return [asdict(trend) for trend in found]


def _show_rounds(trend: Trend, out: Console) -> None:
    rows = [_cells(number, one, trend.unit) for number, one in enumerate(trend.rounds, 1)]
    widths = [max(map(cell_len, column)) for column in zip(_HEADER, *rows, strict=True)]
    room = out.width - sum(widths) - len(_GAP) * len(widths)
    bar_width = min(_BAR, room) if room >= _SHORTEST_BAR else 0
    most = max((r.value for r in trend.rounds if r.value is not None), default=0.0)
    out.print(_line(_HEADER, widths, " " * bar_width, "dim"), soft_wrap=True)
    for one, row in zip(trend.rounds, rows, strict=True):
        line = _line(row, widths, _bar(one, most, bar_width).ljust(bar_width))
        words = _words(one)
        beside = Text.assemble(line, _GAP, words)
        if cell_len(beside.plain.rstrip()) <= out.width:
            beside.rstrip()
            out.print(beside)
        else:
            line.rstrip()
            out.print(line, soft_wrap=True)
            out.print(Padding(words, (0, 0, 0, _INDENT)))


def _cells(number: int, one: Round, unit: str) -> tuple[str, ...]:
    value = "-" if one.value is None else show_value(one.value, unit)
    ratio = "" if one.ratio is None else f"x{one.ratio:.3f}"
    return str(number), one.run_id, value, ratio


def _line(cells: Sequence[str], widths: Sequence[int], bar: str, style: str = "") -> Text:
    number, run, value, ratio = cells
    parts = [number.ljust(widths[0]), run.ljust(widths[1]), value.rjust(widths[2])]
    parts += [bar] if bar else []
    return Text(_GAP.join([*parts, ratio.rjust(widths[3])]), style=style)


def _bar(one: Round, most: float, width: int) -> str:
    if not width or one.value is None or most <= 0 or one.value < 0:
        return ""
    return "▇" * max(1, round(width * (one.value / most)))


def _words(one: Round) -> Text:
    parts = []
    if one.value is None:
        parts.append(Text(harmless(_why(one)), "bold yellow"))
    if one.unreadable:
        parts.append(Text(harmless(_unreadable(one.unreadable)), "bold yellow"))
    if one.note:
        parts.append(Text(f"“{harmless(one.note)}”", "dim"))
    if one.changes:
        parts.append(Text("changed: " + "; ".join(map(harmless, _changes(one))), "yellow"))
    return Text(_GAP).join(parts)


def _unreadable(problems: Sequence[str]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"unreadable result: {problems[0]}{more}"


def _why(one: Round) -> str:
    """`error: NaN in the output`, or what else stood in the way."""
    recorded = one.why.removeprefix("recorded as ")
    return recorded if recorded != one.why else f"not measured: {one.why}"


def _changes(one: Round) -> Iterable[str]:
    for change in one.changes[:_MAX_CHANGES]:
        yield _code(one.files) if change == "code" and one.files else change
    if len(one.changes) > _MAX_CHANGES:
        yield f"and {len(one.changes) - _MAX_CHANGES} more"


def _code(files: Sequence[str]) -> str:
    count = f"{len(files)} file{'s' if len(files) != 1 else ''}"
    more = ", …" if len(files) > _MAX_FILES else ""
    return f"code ({count}: {', '.join(files[:_MAX_FILES])}{more})"
