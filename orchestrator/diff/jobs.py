"""What ended otherwise: jobs whose state changed, ledger entries whose status changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.store.history import History

JOB, ENTRY = "job", "entry"
_ABSENT = "absent"


@dataclass(frozen=True)
class Ended:
    """One job or ledger entry and what became of it on either side."""

    kind: str
    id: str
    a: str
    b: str

    def as_json(self) -> dict[str, str]:
        return dict(vars(self))


def compare(
    a: History,
    b: History,
    items_a: Sequence[Mapping[str, Any]],
    items_b: Sequence[Mapping[str, Any]],
) -> tuple[Ended, ...]:
    """All jobs, then all ledger entries, that did not come to the same."""
    jobs = ({job.id: job.state for job in history.jobs.values()} for history in (a, b))
    entries = (_entries(items) for items in (items_a, items_b))
    return (*_unlike(JOB, *jobs), *_unlike(ENTRY, *entries))


def _entries(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Statuses of predictions; what was measured and not predicted stands among the metrics."""
    return {
        str(item["id"]): str(item.get("status", ""))
        for item in items
        if item.get("status") != "new"
    }


def _unlike(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> list[Ended]:
    names = [*a, *(name for name in b if name not in a)]
    found = [Ended(kind, name, a.get(name, _ABSENT), b.get(name, _ABSENT)) for name in names]
    return [ended for ended in found if ended.a != ended.b]
