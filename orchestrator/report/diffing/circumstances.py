"""What the rest of a comparison is worth: conditions, code, and what ended otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.diff.code import CodeDiff
from orchestrator.diff.comparison import Comparison
from orchestrator.diff.conditions import Change, ConditionDiff
from orchestrator.diff.jobs import ENTRY, JOB, Ended
from orchestrator.report.diffing.cells import counted, new_table, one_line, short
from orchestrator.report.words import show_value, state_words
from orchestrator.spec.quantity import show_size
from orchestrator.verdict.conditions import Field

_MOST_STATE = 8
_MOST_FILES = 12
_MOST_LINES = 40


def condition_parts(found: ConditionDiff) -> Iterator[RenderableType]:
    """Identity first: what differs there takes the meaning from every metric."""
    yield Text()
    if found.missing:
        yield Text(f"conditions: {found.obstacle}", style="bold yellow")
        return
    for side, drift in found.drifted:
        yield Text(f"{drift.moment}: {side}: {one_line(drift.name)}", style="bold yellow")
    if found.identity:
        count = len(found.identity)
        yield Text(f"conditions: {counted(count, 'fact')} of identity differ", style="bold yellow")
        yield _changes(found.identity, bold=True)
    state = sorted(found.state, key=by_size)
    if state:
        yield Text(f"conditions: {counted(len(state), 'state')} differ", style="dim")
        yield _changes(state[:_MOST_STATE])
        if len(state) > _MOST_STATE:
            yield Text(f"  and {len(state) - _MOST_STATE} more (--json)", style="dim")
    words = f"conditions: {counted(found.same, 'fact')} the same"
    if found.unknown:
        words += f", {found.unknown} of identity known on neither side"
    yield Text(words, style="dim")


def by_size(change: Change) -> tuple[float, str]:
    """The largest relative change first; what is no number before all numbers."""
    return (-abs(change.delta) if change.delta is not None else -float("inf"), change.name)


def _changes(changes: Sequence[Change], *, bold: bool = False) -> Table:
    table = new_table()
    for change in changes:
        delta = "" if change.delta is None else f"{change.delta:+.1%}"
        style = "bold" if bold else ""
        table.add_row(
            Text(f"  {one_line(change.name)}", style=style),
            field_text(change.a),
            "->",
            field_text(change.b),
            delta,
        )
    return table


def field_text(field: Field) -> Text:
    if field.state == "value":
        if field.unit == "By" and isinstance(field.value, int):
            return Text(show_size(field.value))
        return Text(short(one_line(show_value(field.value, field.unit))))
    return Text(one_line(field.state.replace("_", " ")), style="yellow")


def code_parts(found: CodeDiff, comparison: Comparison) -> Iterator[RenderableType]:
    """The files that changed, and the command that shows how."""
    yield Text()
    if found.same:
        yield Text(f"code: the same tree, {found.tree_a[:12]}", style="dim")
        return
    if found.note:
        yield Text(f"code: {one_line(found.note)}", style="yellow")
        return
    words = f"code: {counted(len(found.files), 'file')} changed, +{found.added} -{found.removed}"
    yield Text(words, style="bold")
    table = new_table()
    for change in found.files[:_MOST_FILES]:
        binary = change.added is None
        counts = "binary" if binary else f"+{change.added} -{change.removed}"
        table.add_row(Text(f"  {one_line(change.path)}"), counts)
    yield table
    if len(found.files) > _MOST_FILES:
        yield Text(f"  and {len(found.files) - _MOST_FILES} more", style="dim")
    ids = (comparison.a.run_id, comparison.b.run_id)
    if all(ids):
        yield Text(f"  read it: orch source diff {' '.join(map(one_line, ids))}", style="dim")


def ended_parts(ended: Sequence[Ended], stat: bool) -> Iterator[RenderableType]:
    """Jobs and ledger entries that came to something else; only their counts, if these do."""
    if not ended:
        return
    yield Text()
    counts = Counter(item.kind for item in ended)
    told = [counted(counts[kind], kind) for kind in (JOB, ENTRY) if counts[kind]]
    yield Text(f"ended otherwise: {', '.join(told)}", style="bold")
    if stat:
        return
    table = new_table()
    for item in ended[:_MOST_LINES]:
        table.add_row(
            Text(f"  {item.kind}", style="dim"),
            Text(one_line(item.id)),
            Text(one_line(state_words(item.a))),
            "->",
            Text(one_line(state_words(item.b))),
        )
    yield table
    if len(ended) > _MOST_LINES:
        yield Text(f"  and {len(ended) - _MOST_LINES} more", style="dim")
