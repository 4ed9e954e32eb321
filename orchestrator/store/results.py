"""What the steps recorded, read back from results.jsonl with its point and its round."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.store.history import History, JobView

_STATUSES = ("ok", "skipped", "not_applicable", "unknown", "error")


@dataclass(frozen=True)
class Result:
    """One recorded metric. `value` is None exactly when `status` is not `ok`."""

    metric: str
    value: Any
    unit: str
    step: str
    point: Mapping[str, Any]
    round: int
    job: str
    status: str = "ok"
    samples: Sequence[float] = ()
    note: str = ""
    timing: Mapping[str, Any] = field(default_factory=dict)
    check: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """All results of a run, and the lines that could not be read: findings, not blanks."""

    found: tuple[Result, ...]
    problems: tuple[str, ...] = ()


def read(evidence: Path, history: History) -> Results:
    """The results of every job that recorded any."""
    found: list[Result] = []
    problems: list[str] = []
    for job in history.jobs.values():
        path = evidence / "steps" / job.folder / "results.jsonl"
        if not job.folder or not path.is_file():
            continue
        for line_number, line in _lines(path):
            try:
                found.append(_result(json.loads(line), job))
            except (ValueError, KeyError, TypeError) as error:
                problems.append(f"{job.id}: results.jsonl:{line_number}: {error}")
    return Results(tuple(found), tuple(problems))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def _result(record: Mapping[str, Any], job: JobView) -> Result:
    value, status = record["value"], record["status"]
    if status not in _STATUSES or (value is None) != (status != "ok"):
        raise ValueError(f"`{record['metric']}` has the value {value!r} and the status {status!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{record['metric']}` is {value}")
    return Result(
        metric=str(record["metric"]),
        value=value,
        unit=str(record["unit"]),
        step=job.step,
        point={**job.point, **(record.get("point") or {})},
        round=job.round,
        job=job.id,
        status=status,
        samples=tuple(record.get("samples") or ()),
        note=str(record.get("note") or ""),
        timing=record.get("timing") or {},
        check=record.get("check") or {},
    )
