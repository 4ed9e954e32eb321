"""A comparison in the terminal: conditions, code, what ended otherwise, metrics, artifacts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.diff.code import CodeDiff
from orchestrator.diff.comparison import Comparison, Named
from orchestrator.diff.conditions import Change, ConditionDiff
from orchestrator.diff.jobs import Ended
from orchestrator.diff.measures.contrast import Level
from orchestrator.diff.measures.points import ORDER as METRIC_ORDER
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.diff.record import ORDER, SETTLED, Location, Record
from orchestrator.report.words import harmless, show_value, show_where, state_words
from orchestrator.spec.quantity import show_size
from orchestrator.verdict.conditions import Field

# A pipe has no width; wrapping there would break the lines people grep for.
_PLAIN_WIDTH = 240
STATUS_STYLES: Mapping[str, str] = {
    "unreadable": "bold red",
    "different": "bold red",
    "only_a": "red",
    "only_b": "red",
    "skipped": "bold yellow",
    "within": "green",
    "equal_after_masks": "green",
    "equal": "green",
    "no_value": "bold yellow",
    "not_comparable": "bold yellow",
    "ambiguous": "bold yellow",
    "too_few": "yellow",
    "measured": "cyan",
}
_MOST_STATE = 8
_MOST_FILES = 12
_MOST_LINES = 40
_MOST_SETTLED = 10
_MOST_PLACES = 4
_MOST_CHILDREN = 8
# The numbers that say most about a pair, by which people look first.
_TELLING = (
    "outside",
    "max_abs",
    "max_rel",
    "rel_l2",
    "cosine",
    "ulp_max",
    "nan_a",
    "nan_b",
    "special_mismatches",
    "added_lines",
    "removed_lines",
    "changed_numbers",
    "added",
    "removed",
    "changed",
    "recounted",
    "added_rows",
    "removed_rows",
    "changed_cells",
    "changed_share",
    "perceptual_max",
    "deleted",
    "increased",
    "decreased",
    "registers_a",
    "registers_b",
    "kernels_different",
    "tensors_different",
    "tensors_within",
)


def show(
    comparison: Comparison,
    *,
    stat: bool = False,
    plain: bool = False,
    console: Console | None = None,
) -> None:
    """Write the comparison to the terminal, or as plain text where there is none."""
    out = console or _console(plain or not sys.stdout.isatty())
    for part in _parts(comparison, stat):
        out.print(part, soft_wrap=isinstance(part, Text) and not out.is_terminal)


def _console(plain: bool) -> Console:
    return Console(width=_PLAIN_WIDTH, force_terminal=False, no_color=True) if plain else Console()


def _parts(comparison: Comparison, stat: bool) -> Iterator[RenderableType]:
    yield _side("A", comparison.a)
    yield _side("B", comparison.b)
    if comparison.conditions is not None:
        yield from _conditions(comparison.conditions)
    if comparison.code is not None:
        yield from _code(comparison.code, comparison)
    yield from _ended(comparison.ended)
    yield from _metrics(comparison.metrics, stat)
    yield from _artifacts(comparison, stat)
    for problem in comparison.problems:
        yield Text(f"note: {_plain(problem)}", style="yellow")
    yield _banner(comparison)


def _side(letter: str, side: Named) -> Text:
    details = [side.kind]
    if side.run_id and side.run_id != side.name:
        details.append(side.run_id)
    details += [f"on {side.host}"] if side.host else []
    return Text.assemble(
        (f"{letter}  ", "bold"), _plain(side.name), (f"  {_plain(', '.join(details))}", "dim")
    )


# ---- conditions


def _conditions(found: ConditionDiff) -> Iterator[RenderableType]:
    yield Text()
    if found.missing:
        yield Text(f"conditions: {found.obstacle}", style="bold yellow")
        return
    for drifted in found.drifted:
        yield Text(f"changed during the run: {_plain(drifted)}", style="bold yellow")
    if found.identity:
        count = len(found.identity)
        yield Text(f"conditions: {_counted(count, 'fact')} of identity differ", style="bold yellow")
        yield _changes(found.identity, bold=True)
    state = sorted(found.state, key=_by_size)
    if state:
        yield Text(f"conditions: {_counted(len(state), 'state')} differ", style="dim")
        yield _changes(state[:_MOST_STATE])
        if len(state) > _MOST_STATE:
            yield Text(f"  and {len(state) - _MOST_STATE} more (--json)", style="dim")
    words = f"conditions: {_counted(found.same, 'fact')} the same"
    if found.unknown:
        words += f", {found.unknown} of identity known on neither side"
    yield Text(words, style="dim")


def _by_size(change: Change) -> tuple[float, str]:
    """The largest relative change first; what is no number before all numbers."""
    return (-abs(change.delta) if change.delta is not None else -float("inf"), change.name)


def _changes(changes: Sequence[Change], *, bold: bool = False) -> Table:
    table = _table()
    for change in changes:
        delta = "" if change.delta is None else f"{change.delta:+.1%}"
        style = "bold" if bold else ""
        table.add_row(
            Text(f"  {_plain(change.name)}", style=style),
            _field(change.a),
            "->",
            _field(change.b),
            delta,
        )
    return table


def _field(field: Field) -> Text:
    if field.state == "value":
        if field.unit == "By" and isinstance(field.value, int):
            return Text(show_size(field.value))
        return Text(_short(_plain(show_value(field.value, field.unit))))
    return Text(_plain(field.state.replace("_", " ")), style="yellow")


# ---- code


def _code(found: CodeDiff, comparison: Comparison) -> Iterator[RenderableType]:
    yield Text()
    if found.same:
        yield Text(f"code: the same tree, {found.tree_a[:12]}", style="dim")
        return
    if found.note:
        yield Text(f"code: {_plain(found.note)}", style="yellow")
        return
    words = f"code: {_counted(len(found.files), 'file')} changed, +{found.added} -{found.removed}"
    yield Text(words, style="bold")
    table = _table()
    for change in found.files[:_MOST_FILES]:
        binary = change.added is None
        counts = "binary" if binary else f"+{change.added} -{change.removed}"
        table.add_row(Text(f"  {_plain(change.path)}"), counts)
    yield table
    if len(found.files) > _MOST_FILES:
        yield Text(f"  and {len(found.files) - _MOST_FILES} more", style="dim")
    ids = (comparison.a.run_id, comparison.b.run_id)
    if all(ids):
        yield Text(f"  read it: orch source diff {' '.join(map(_plain, ids))}", style="dim")


# ---- what ended otherwise


def _ended(ended: Sequence[Ended]) -> Iterator[RenderableType]:
    if not ended:
        return
    yield Text()
    yield Text("ended otherwise", style="bold")
    table = _table()
    for item in ended[:_MOST_LINES]:
        table.add_row(
            Text(f"  {item.kind}", style="dim"),
            Text(_plain(item.id)),
            Text(_plain(state_words(item.a))),
            "->",
            Text(_plain(state_words(item.b))),
        )
    yield table
    if len(ended) > _MOST_LINES:
        yield Text(f"  and {len(ended) - _MOST_LINES} more", style="dim")


# ---- metrics


def _metrics(metrics: Sequence[MetricDiff], stat: bool) -> Iterator[RenderableType]:
    if not metrics:
        return
    yield Text()
    counts = _counts((metric.outcome for metric in metrics), METRIC_ORDER)
    yield Text(f"metrics: {counts}", style="bold")
    if stat:
        return
    table = _table()
    for title in ("", "metric", "A", "B", "B/A", "centre"):
        right = title in ("A", "B", "B/A")
        table.add_column(title, justify="right" if right else "left", no_wrap=not title or right)
    table.show_header = True
    for metric in metrics[:_MOST_LINES]:
        _add_metric(table, metric)
    yield table
    if len(metrics) > _MOST_LINES:
        yield Text(f"  and {len(metrics) - _MOST_LINES} more (--json)", style="dim")


def _add_metric(table: Table, metric: MetricDiff) -> None:
    found = metric.contrast
    place = f"{metric.step}[{show_where(metric.point)}]" if metric.point else metric.step
    table.add_row(
        Text(metric.outcome.replace("_", " "), style=STATUS_STYLES[metric.outcome]),
        Text.assemble(_plain(metric.metric), (f"  {_plain(place)}", "dim")),
        _level(found.a, found.unit),
        _level(found.b, found.unit),
        "" if found.ratio is None else _ratio(found.ratio),
        Text(_classes(found.a, found.b), style="dim"),
    )
    if found.reason:
        table.add_row("", Text(f"  {_plain(found.reason)}", style="dim"))


def _level(level: Level, unit: str) -> Text:
    """The centre and, in brackets, the range of the blocks and how many they are."""
    if level.point_class == "exact":
        value = "-" if level.value is None else show_value(level.value, unit)
        return Text(_short(_plain(value)))
    shown = level.centre if level.centre is not None else level.median
    if shown is None:
        return Text("-")
    return Text.assemble(
        show_value(shown, unit), (f" ({level.low:.4g}…{level.high:.4g}, {level.count})", "dim")
    )


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.01 <= ratio < 100 else f"{ratio:.3g}"


def _classes(a: Level, b: Level) -> str:
    if a.point_class == "exact":
        return ""
    classes = dict.fromkeys(level.point_class.replace("_", " ") for level in (a, b))
    kind = f"{a.centre_kind}, " if a.centre_kind else ""
    return kind + " / ".join(classes)


# ---- artifacts


def _artifacts(comparison: Comparison, stat: bool) -> Iterator[RenderableType]:
    records = comparison.artifacts
    yield Text()
    if not records:
        yield Text("artifacts: none on either side", style="yellow")
        return
    counts = _counts((record.status for record in records), ORDER)
    ignored = f"; {comparison.ignored} ignored by rule" if comparison.ignored else ""
    yield Text(f"artifacts: {counts}{ignored}", style="bold")
    unsettled = [record for record in records if record.status not in SETTLED]
    settled = [record for record in records if record.status in ("within", "equal_after_masks")]
    for group, most in ((unsettled, _MOST_LINES), (settled, _MOST_SETTLED)):
        for record in group[:most]:
            yield from _record(record, stat)
        if len(group) > most:
            yield Text(f"  and {len(group) - most} more (--json, --only GLOB)", style="dim")


def _record(record: Record, stat: bool, depth: int = 1) -> Iterator[Text]:
    status = record.status.replace("_", " ")
    yield Text.assemble(
        "  " * depth,
        (status, STATUS_STYLES[record.status]),
        "  ",
        (_plain(record.path), "bold" if record.status not in SETTLED else ""),
        (f"  {_facts(record)}", "dim"),
    )
    if record.note and record.status != "equal_after_masks":
        yield Text(f"{'  ' * depth}    {_plain(record.note)}", style="dim")
    if stat:
        return
    settled = record.status in SETTLED
    for place in () if settled else record.locations[:_MOST_PLACES]:
        yield _place(place, depth)
    hidden = len(record.locations) + record.more - _MOST_PLACES
    if hidden > 0 and not settled:
        yield Text(f"{'  ' * depth}    and {hidden} more", style="dim")
    for child in record.children[:_MOST_CHILDREN]:
        if child.status not in SETTLED:
            yield from _record(child, stat, depth + 2)
    if len(record.children) > _MOST_CHILDREN:
        more = len(record.children) - _MOST_CHILDREN
        yield Text(f"{'  ' * depth}    and {more} more parts (--json)", style="dim")


def _facts(record: Record) -> str:
    parts = [record.type]
    if record.size_a != record.size_b:
        parts += [f"{_size(record.size_a)} -> {_size(record.size_b)}"]
    told = [name for name in _TELLING if record.metrics.get(name)]
    parts += [f"{name} {_number(record.metrics[name])}" for name in told[:6]]
    parts += [f"{name}: {count} hidden" for name, count in record.masks.items()]
    if record.tolerance and record.status in ("within", "different"):
        parts.append(f"tolerance {record.tolerance}")
    return _plain(", ".join(parts))


def _place(place: Location, depth: int) -> Text:
    values = f"{place.a or '-'} -> {place.b or '-'}" if place.a or place.b else ""
    return Text.assemble(
        f"{'  ' * depth}    ", (_plain(place.where), "cyan"), f"  {_plain(values)}"
    )


# ---- the end


def _banner(comparison: Comparison) -> Text:
    code = comparison.exit_code
    words = {
        0: "nothing differs that was judged",
        1: "the two sides differ",
        3: "not everything could be compared",
    }
    style = {0: "bold green", 1: "bold red"}.get(code, "bold yellow")
    return Text(f"\n{words[code]}{_next_action(comparison)}", style=style)


def _next_action(comparison: Comparison) -> str:
    statuses, outcomes = comparison.artifact_counts, comparison.metric_counts
    if outcomes.get("not_comparable"):
        return "; metrics of unlike hosts or timings are shown, not judged"
    if outcomes.get("too_few"):
        return "; for a class and a centre, give the step `rounds: 8`"
    if statuses.get("different"):
        return "; what may differ is declared under `compare:` in the experiment"
    return ""


def _table() -> Table:
    return Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=False
    )


def _counts(words: Iterable[str], order: Sequence[str]) -> str:
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return ", ".join(f"{found[w]} {w.replace('_', ' ')}" for w in order if w in found)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _size(size: int | None) -> str:
    return "-" if size is None else show_size(size)


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _plain(text: str) -> str:
    """Untrusted text as one line that any terminal can take."""
    whole = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return harmless(whole).replace("\n", "\\n").replace("\t", " ")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
