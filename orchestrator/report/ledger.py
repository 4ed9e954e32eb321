"""The ledger against the run, as a terminal shows it: a table and its tally."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.report.words import cut, harmless, show_distance, show_measured, show_where
from orchestrator.verdict.item import HIT, MISS, MISSING, NEW, NOT_COMPARABLE, ORDER, Item

_STATUS_STYLES: Mapping[str, str] = {
    HIT: "green",
    MISS: "bold red",
    MISSING: "bold yellow",
    NOT_COMPARABLE: "bold yellow",
    NEW: "cyan",
}
# Of the columns that wrap; the others show all they have.
_NARROWEST = 16
_LONGEST_EXPECTED = 40
_MAX_HITS = 30
_MAX_NEW = 4


def table(items: Sequence[Item]) -> RenderableType | None:
    """Every line of the verdict that fits a screen, with what stands below it; None without any."""
    if not items:
        return None
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    rows.add_column("", no_wrap=True)
    rows.add_column("entry", overflow="fold", min_width=_NARROWEST)
    rows.add_column("measured", justify="right", no_wrap=True)
    rows.add_column("expected", overflow="fold", min_width=_NARROWEST)
    rows.add_column("distance", justify="right", no_wrap=True)
    for item in _shown(items):
        status = Text(item.status.replace("_", " "), style=_STATUS_STYLES[item.status])
        expected = Text(cut(harmless(item.expected), _LONGEST_EXPECTED))
        rows.add_row(status, _named(item), _measured(item), expected, show_distance(item))
        for line in _notes(item):
            rows.add_row("", Text(f"  {harmless(line)}", style="dim"))
    hidden = len(items) - len(_shown(items))
    parts: list[RenderableType] = [rows]
    if hidden:
        parts.append(Text(f"and {hidden} more in verdict.json", style="dim"))
    return Group(*parts)


def _shown(items: Sequence[Item]) -> list[Item]:
    """All that went wrong, and as many of the rest as fit a screen."""
    limits = {HIT: _MAX_HITS, NEW: _MAX_NEW}
    kept: list[Item] = []
    counts: dict[str, int] = {}
    for item in items:
        counts[item.status] = counts.get(item.status, 0) + 1
        if counts[item.status] <= limits.get(item.status, len(items)):
            kept.append(item)
    return kept


def _named(item: Item) -> Text:
    if not item.is_predicted:
        place = f"{item.step}[{show_where(item.where)}]" if item.where else item.step
        mark = " (info)" if item.status == MISSING and item.severity == "info" else ""
        return Text.assemble(item.metric + mark, ("  " + place, "dim"))
    style = "" if item.severity == "blocker" else "italic"
    return Text(item.id if item.severity == "blocker" else f"{item.id} (info)", style=style)


def _measured(item: Item) -> Text:
    return Text(cut(show_measured(item)) if isinstance(item.measured, str) else show_measured(item))


def _notes(item: Item) -> Iterable[str]:
    """What stands below an item; texts that differ where the table has cut them, in full."""
    is_miss = item.status == MISS
    if is_miss and isinstance(item.measured, str) and show_measured(item) != _measured(item).plain:
        yield f"measured: {item.measured}"
        yield f"expected: {item.expected}"
    if item.reason:
        yield item.reason
    elif is_miss and item.decides:
        yield f"decides: {item.decides}"


def tally(items: Sequence[Item]) -> str:
    """How many of each status, to follow the words on the jobs."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item.status] = counts.get(item.status, 0) + 1
    words = [f"{counts[s]} {s.replace('_', ' ')}" for s in ORDER if s in counts]
    subject = "ledger: " if any(item.is_predicted for item in items) else ""
    return f"; {subject}{', '.join(words)}" if words else ""
