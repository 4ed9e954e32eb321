"""What the steps recorded, read back from results.jsonl with its point and its round."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.store.history import History, JobView, exact

_STATUSES = ("ok", "skipped", "not_applicable", "unknown", "error")
_KINDS: Mapping[str, type] = {"unit": str, "note": str, "timing": dict, "check": dict}
_ENDLESS = (math.inf, -math.inf)
MAX_LINE = 16 << 20
"""Bytes of one record: a million samples, and no more than memory bears."""
MAX_PROBLEMS = 20
"""Lines of one job that are told one by one; a program that is wrong once is wrong each time."""


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
        unread, lines = [], 0
        for lines, line in _lines(path) if job.folder and path.is_file() else ():
            try:
                if line.strip():
                    found.append(_result(_record(line), job))
            except ValueError as error:
                unread.append(f"{job.id}: results.jsonl:{lines}: {error}")
            except RecursionError:
                unread.append(f"{job.id}: results.jsonl:{lines}: nested too deeply")
        if job.results is None:
            unread.append(f"{job.id}: the host could not read all that it recorded")
        elif lines < job.results:
            unread.append(f"{job.id}: {job.results} results were recorded, {lines} came home")
        problems += unread[:MAX_PROBLEMS]
        if len(unread) > MAX_PROBLEMS:
            more = len(unread) - MAX_PROBLEMS
            problems.append(f"{job.id}: results.jsonl: and {more} more lines")
    return Results(tuple(found), tuple(problems))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; of one that is too long, as much as tells that it is.

    Only a line feed ends a line, as on the host, which counted them.
    """
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            yield number, line
            while len(line) > MAX_LINE and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE + 1)


def _record(line: bytes) -> Any:
    if len(line) > MAX_LINE:
        raise ValueError(f"a line of more than {MAX_LINE} bytes")
    text = _text(line)
    record = json.loads(text)
    if "\\ud" in text.lower():
        # Half of a character is JSON, and no text that a verdict could be written with.
        try:
            json.dumps(record, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("it holds half of a character (a lone surrogate)") from None
    return record


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character put in its place would make two values that differ look the same.
        byte = line[error.start]
        raise ValueError(f"its byte 0x{byte:02x} at {error.start} is not UTF-8") from None


def _result(record: Any, job: JobView) -> Result:
    if not isinstance(record, dict):
        raise ValueError("not a result")
    for key, kind in _KINDS.items():
        if not isinstance(record.get(key) or kind(), kind):
            raise ValueError(f"its {key} is a {type(record[key]).__name__}, not a {kind.__name__}")
    for key in ("metric", "value"):
        if key not in record:
            raise ValueError(f"the key `{key}` is missing")
    metric, status = record["metric"], record.get("status", "ok")
    if not isinstance(metric, str):
        raise ValueError(f"its metric is {str(metric)[:40]}, not a name in quotes")
    return Result(
        metric=metric,
        value=_value(metric, record["value"], status),
        unit=str(record.get("unit") or ""),
        step=job.step,
        point=_point(record.get("point"), job),
        round=job.round,
        job=job.id,
        status=status,
        samples=_samples(record.get("samples")),
        note=str(record.get("note") or ""),
        timing=record.get("timing") or {},
        check=record.get("check") or {},
    )


def _value(metric: str, value: Any, status: Any) -> Any:
    if status not in _STATUSES or (value is None) != (status != "ok"):
        raise ValueError(f"`{metric}` has the value {value!r} and the status {status!r}")
    if value is not None and not isinstance(value, (str, int, float)):
        raise ValueError(f"`{metric}` is a {type(value).__name__}")
    if isinstance(value, (int, float)) and not _is_finite(value):
        raise ValueError(f"`{metric}` is {str(value)[:40]}")
    return value


def _point(told: Any, job: JobView) -> Mapping[str, Any]:
    """The axes of the job, and those that its process looped over."""
    if told is not None and not isinstance(told, dict):
        raise ValueError("its point is not a mapping")
    for axis, value in (told or {}).items():
        if not isinstance(value, (str, int, float)) or value != value or value in _ENDLESS:
            raise ValueError(f"the axis `{axis}` is {value!r}")
        if axis in job.point and exact({axis: job.point[axis]}) != exact({axis: value}):
            raise ValueError(f"it says {axis}={value}, the job ran at {axis}={job.point[axis]}")
    return {**job.point, **(told or {})}


def _samples(told: Any) -> tuple[float, ...]:
    if told is not None and not isinstance(told, list):
        raise ValueError("its samples are not a list")
    for sample in told or ():
        if type(sample) not in (int, float) or not _is_finite(sample):
            raise ValueError(f"a sample is {sample!r}")
    return tuple(told or ())


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        # An integer beyond every float.
        return False
