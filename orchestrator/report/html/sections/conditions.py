"""Under which conditions it was measured, and what changed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.report.conditions import TELLING, TELLING_GPU
from orchestrator.report.html.section import Section, render
from orchestrator.report.view import RunView
from orchestrator.verdict.conditions import Drift, Field, drifted

SEVERITIES = ("identity", "condition", "info")
SILENT = ("not_applicable", "not_supported")
"""States that say that a host has no such thing; read by whoever asks for them."""


@dataclass(frozen=True)
class Row:
    """One fact before and after."""

    name: str
    before: str
    after: str
    changed: bool
    severity: str
    source: str
    told: bool


def section(view: RunView) -> Section:
    before, after = view.conditions.before, view.conditions.after
    rows = [_row(name, field, after.get(name)) for name, field in sorted(before.items())]
    drift = list(drifted(view.conditions))
    moved = [row for row in rows if row.changed and row.severity == "condition"]
    body = render(
        "conditions.html.j2",
        telling=[row for row in rows if _is_telling(row.name) and row.told],
        groups=[(s, [row for row in rows if row.severity == s and row.told]) for s in SEVERITIES],
        silent=[row for row in rows if not row.told],
        drift=[(fact, _shown(fact.before), _shown(fact.after)) for fact in drift],
        moved=moved,
        missing=not rows,
        caches=view.conditions.caches,
    )
    return Section("conditions", "Conditions", body, _next(rows, drift))


def _is_telling(name: str) -> bool:
    """Whether a reader wants it before believing a number."""
    top, _, rest = name.partition(".")
    return name in TELLING or (top == "gpu" and rest.partition(".")[2] in TELLING_GPU)


def _next(rows: list[Row], drift: list[Drift]) -> str:
    if not rows:
        return "no snapshot came home: compare this run with nothing"
    if drift:
        return f"{drift[0].name} {drift[0].moment}: compare it with nothing, and run again"
    return ""


def _row(name: str, before: Field, after: Field | None) -> Row:
    changed = after is not None and (before.state, before.value) != (after.state, after.value)
    return Row(
        name=name,
        before=_shown(before),
        after=_shown(after) if after is not None and changed else "",
        changed=changed,
        severity=before.severity,
        source=before.source,
        told=changed or before.state not in SILENT,
    )


def _shown(field: Field) -> str:
    if field.state != "value":
        return field.state.replace("_", " ") + (f": {field.detail}" if field.detail else "")
    if field.unit == "By":
        return _bytes(field.value)
    return f"{_flat(field.value)} {field.unit}".strip()


def _bytes(value: Any) -> str:
    """A size as people say it; a table of sizes goes on as one."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_bytes(item)}" for key, item in value.items())
    if isinstance(value, (int, float)):
        for unit, factor in (("GBy", 1e9), ("MBy", 1e6), ("kBy", 1e3)):
            if abs(value) >= factor:
                return f"{value / factor:.4g} {unit}"
    return f"{_flat(value)} By"


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_flat(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_flat(item) for item in value)
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 400 else text[:397] + "..."
