"""What a review decides on: lines of the verdict, steps that did not pass, differences of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.agent import journal
from orchestrator.diff.jobs import JOB, Ended
from orchestrator.diff.measures.contrast import Level
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.diff.record import SETTLED, Record
from orchestrator.report.diffing.metrics import level_text
from orchestrator.report.words import how_it_ended, show_value, show_where, state_words
from orchestrator.store.history import History, JobView
from orchestrator.verdict.item import HIT, Item
from orchestrator.verdict.item import NEW as UNPREDICTED

STEP, LEDGER, ENDED, METRIC = "step", "ledger", "ended", "metric"
DIFFERENCE, NEW = "difference", "new"
KINDS = (STEP, LEDGER, ENDED, METRIC, DIFFERENCE, NEW)
"""In the order of reading: what broke comes before what merely differs."""
_ASKED_METRICS = frozenset({"different", "only_a", "only_b"})
_TAIL_LINES = 5


@dataclass(frozen=True)
class Subject:
    """One thing to look at.

    `id` is stable: a decision names it in review.yaml. `seen` is what a decision was made on; when
    it is another one day, the decision no longer holds. `like` says what it has in common with
    those that most likely have the same cause; empty where each stands for itself.
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
    like: str = ""


def of_items(items: Sequence[Item]) -> list[Subject]:
    """The lines of the verdict. A hit needs no decision; what is new may be accepted."""
    return list(_unique(map(_of_item, items)))


def of_records(records: Sequence[Record], other: str) -> list[Subject]:
    """The differences from another run, worst first."""
    return list(_unique(_of_record(record, other) for record in records))


def of_steps(history: History) -> list[Subject]:
    """Every job that did not pass. A run without a miss is no good run while a step of it broke."""
    return [_of_step(job) for job in history.jobs.values() if job.state != journal.PASSED]


def of_ended(ended: Sequence[Ended], other: str, alone: Sequence[Subject]) -> list[Subject]:
    """What ended otherwise than in another run.

    Args:
        alone: the subjects of this run alone. An entry that is open among them is not asked about
            twice; of a job that did not pass, what is known of it is taken over.
    """
    known = {subject.id: subject for subject in alone if subject.is_open}
    return [
        _of_ended(one, other, known.get(f"{STEP}:{one.id}"))
        for one in ended
        if one.kind == JOB or f"{LEDGER}:{one.id}" not in known
    ]


def of_metrics(metrics: Sequence[MetricDiff], other: str) -> list[Subject]:
    """The exact metrics that differ, and those of one run only; ratios are read and not judged."""
    return list(
        _unique(_of_metric(metric, other) for metric in metrics if metric.outcome in _ASKED_METRICS)
    )


def _of_step(job: JobView) -> Subject:
    return Subject(
        id=f"{STEP}:{job.id}",
        kind=STEP,
        title=job.id,
        status=job.state,
        is_open=True,
        seen=how_it_ended(job),
        notes=tuple(job.tail[-_TAIL_LINES:]),
        like=f"step {job.step} {_cause(job)}",
    )


def _cause(job: JobView) -> str:
    how = "" if job.exit_code is None else f", exit code {job.exit_code}"
    return f"{state_words(job.state)}{how}"


def _of_ended(ended: Ended, other: str, step: Subject | None) -> Subject:
    now = step.seen if step is not None and ended.kind == JOB else state_words(ended.b)
    return Subject(
        id=f"{ENDED}:{other}:{ended.kind}:{ended.id}",
        kind=ENDED,
        title=f"{ended.kind} {ended.id}",
        status=ended.b,
        is_open=True,
        seen=f"{state_words(ended.a)} in {other}; now {now}",
        notes=step.notes if step is not None and ended.kind == JOB else (),
        like=step.like if step is not None and ended.kind == JOB else "",
    )


def _of_metric(metric: MetricDiff, other: str) -> Subject:
    found = metric.contrast
    where = show_where(metric.point)
    sides = " -> ".join(_level(level, found.unit) for level in (found.a, found.b))
    return Subject(
        id=f"{METRIC}:{other}:{metric.metric}@{metric.step}[{where}]",
        kind=METRIC,
        title=metric.metric,
        status=metric.outcome,
        is_open=True,
        seen=f"{state_words(metric.outcome)}; {sides}",
        notes=tuple(filter(None, (metric.step, where, found.reason))),
        like=f"{metric.metric} {state_words(metric.outcome)}",
    )


def _level(level: Level, unit: str) -> str:
    """One side in full: two long texts that differ at their end must not look alike."""
    if level.value is None:
        return level_text(level, unit).plain
    words = json.dumps(level.value, ensure_ascii=False)
    return words if unit in ("", "1") else f"{words} {unit}"


def _of_item(item: Item) -> Subject:
    is_new = item.status == UNPREDICTED
    where = show_where(item.where)
    place = f"{item.metric}@{item.step}[{where}]" if is_new else item.id
    measured = "nothing" if item.measured is None else show_value(item.measured, item.unit)
    seen = f"{measured}; expected {item.expected}" if item.expected else measured
    return Subject(
        id=f"{NEW if is_new else LEDGER}:{place}",
        kind=NEW if is_new else LEDGER,
        title=item.id,
        status=item.status,
        is_open=item.status not in (HIT, UNPREDICTED),
        seen=seen,
        item=item,
        notes=tuple(filter(None, (where, item.reason))),
        like=f"{item.metric} {state_words(item.status)}" if item.metric else "",
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
