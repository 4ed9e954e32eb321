"""A run as a comment on a pull request: the verdict first, the rest folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from orchestrator.report.verdict import verdict_of
from orchestrator.report.view import RunView
from orchestrator.report.words import (
    cut,
    harmless,
    how_it_ended,
    show_distance,
    show_fact,
    show_measured,
    show_where,
    state_words,
)
from orchestrator.verdict import decision
from orchestrator.verdict.item import HIT, MISS, MISSING, NEW, NOT_COMPARABLE, ORDER, Item

MAX_ROWS = 40
_LONGEST_FACT = 120
_MARKS = {
    HIT: "✅",
    MISS: "❌",
    MISSING: "⚠️",
    NOT_COMPARABLE: "⚠️",
    NEW: "🆕",
}
# GitHub reads these inside a table cell: markup, links, mentions and the cell's own border.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~@#])")


def page(view: RunView) -> str:
    """The whole comment, in GitHub's Markdown."""
    verdict = verdict_of(view)
    words = decision.words(view.exit_code, view.items).capitalize()
    blocks = [
        f"### {_plain(view.record.experiment)}: {words}",
        _plain(view.question),
        _counts(view),
        "\n".join(_table([i for i in view.items if i.status != NEW])),
        _folded(
            "Measured without a prediction",
            _table([i for i in view.items if i.status == NEW]),
        ),
        "\n".join(_unreadable(view)),
        "\n".join(_bad_steps(view)),
        _folded("Conditions", _conditions(view)),
        f"**Next:** {_plain(verdict.next_action)}",
        _origin(view),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _unreadable(view: RunView) -> Iterable[str]:
    for problem in view.problems[:MAX_ROWS]:
        yield f"- unreadable result: {_plain(cut(problem, _LONGEST_FACT))}"


def _origin(view: RunView) -> str:
    record = view.record
    parts = (
        f"run {record.run_id}",
        f"host {_plain(record.host)}",
        f"tree {record.tree.local[:12]}",
        f"caches {record.caches}",
    )
    return f"<sub>{', '.join(parts)}</sub>"


def _counts(view: RunView) -> str:
    statuses = [item.status for item in view.items]
    parts = [f"{statuses.count(s)} {s.replace('_', ' ')}" for s in ORDER if s in statuses]
    counts = sorted(view.history.counts.items())
    parts += [f"{n} step{'s' if n != 1 else ''} {state_words(s)}" for s, n in counts]
    return " · ".join(parts)


def _table(items: Sequence[Item]) -> list[str]:
    if not items:
        return []
    lines = ["| | entry | where | measured | expected | distance |", "|---|---|---|--:|---|--:|"]
    for item in items[:MAX_ROWS]:
        cells = (
            *(item.id, show_where(item.where)),
            *(show_measured(item), item.expected, show_distance(item)),
        )
        lines.append(f"| {_MARKS[item.status]} | " + " | ".join(map(_plain, cells)) + " |")
        if item.reason:
            lines.append(f"| | | | | {_plain(item.reason)} | |")
    if len(items) > MAX_ROWS:
        lines.append(f"| | and {len(items) - MAX_ROWS} more in verdict.json | | | | |")
    return lines


def _bad_steps(view: RunView) -> Iterable[str]:
    for job in view.history.jobs.values():
        if job.state != "passed":
            yield f"- **{_plain(job.id)}** {_plain(how_it_ended(job))}"


def _conditions(view: RunView) -> list[str]:
    before, after = view.conditions.before, view.conditions.after
    if not before:
        return ["No snapshot of the host came home."]
    lines = ["| fact | before | after |", "|---|---|---|"]
    for name, field in sorted(before.items()):
        if field.severity != "identity":
            continue
        later = after.get(name)
        is_other = later is not None and (later.state, later.value) != (field.state, field.value)
        shown = show_fact(later) if later is not None and is_other else ""
        cells = (cut(text, _LONGEST_FACT) for text in (name, show_fact(field), shown))
        lines.append("| " + " | ".join(map(_plain, cells)) + " |")
    return lines


def _folded(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    body = "\n".join(lines)
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(harmless(str(text)).split()))
