"""What a review decides on: one line of the verdict, or one difference from another run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.diff.record import SETTLED, Record
from orchestrator.report.words import show_value, show_where
from orchestrator.verdict import reconcile
from orchestrator.verdict.reconcile import Item

LEDGER, NEW, DIFFERENCE = "ledger", "new", "difference"
KINDS = (LEDGER, NEW, DIFFERENCE)


@dataclass(frozen=True)
class Subject:
    """One thing to look at.

    `id` is stable: a decision names it in review.yaml. `seen` is what a decision was made on; when
    it is another one day, the decision no longer holds.
    """

    id: str
    kind: str
    title: str
    status: str
    is_open: bool
    seen: str
    item: Item | None = None
    record: Record | None = None
    notes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def of_items(items: Sequence[Item]) -> list[Subject]:
    """The lines of the verdict. A hit needs no decision; what is new may be accepted."""
    return list(_unique(map(_of_item, items)))


def of_records(records: Sequence[Record], other: str) -> list[Subject]:
    """The differences from another run, worst first."""
    return list(_unique(_of_record(record, other) for record in records))


def _of_item(item: Item) -> Subject:
    is_new = item.status == reconcile.NEW
    where = show_where(item.where)
    place = f"{item.metric}@{item.step}[{where}]" if is_new else item.id
    measured = "nothing" if item.measured is None else show_value(item.measured, item.unit)
    seen = f"{measured}; expected {item.expected}" if item.expected else measured
    return Subject(
        id=f"{NEW if is_new else LEDGER}:{place}",
        kind=NEW if is_new else LEDGER,
        title=item.id,
        status=item.status,
        is_open=item.status not in (reconcile.HIT, reconcile.NEW),
        seen=seen,
        item=item,
        notes=tuple(filter(None, (where, item.reason))),
    )


def _of_record(record: Record, other: str) -> Subject:
    sizes = f"{record.size_a} and {record.size_b} bytes"
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in record.metrics.items())
    return Subject(
        id=f"{DIFFERENCE}:{other}:{record.path}",
        kind=DIFFERENCE,
        title=record.path,
        status=record.status,
        is_open=record.status not in SETTLED,
        seen=f"{record.status}; {metrics or record.note or sizes}",
        record=record,
        notes=(record.note,) if record.note else (),
    )


def _unique(subjects: Iterable[Subject]) -> Iterable[Subject]:
    """Each id once: a decision must not speak for two things."""
    known: set[str] = set()
    for subject in subjects:
        if subject.id not in known:
            known.add(subject.id)
            yield subject
