"""Traces: Chrome and Kineto JSON, plain or gzip, streamed: the table of kernels, and the gaps.

Times are microseconds, as the format has them. A trace is one sample: durations are compared with a
wide tolerance unless a rule names one.
"""

from __future__ import annotations

import gzip
import math
import zlib
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import ijson
import numpy as np

from orchestrator.diff.blob import Blob
from orchestrator.diff.listings.demangle import demangled
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record, Status
from orchestrator.diff.refusal import Skipped, Unreadable

_GPU_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "concurrent_kernel", "gpu_op"})
_USUAL_REL = 0.10
_MOST_EVENTS = 50_000_000
_HEAD_BYTES = 4096


Durations = dict[str, "array[float]"]


@dataclass
class Trace:
    """Durations by name of what ran on GPUs and on the host, and when each GPU was busy."""

    gpu_us: Durations = field(default_factory=dict)
    host_us: Durations = field(default_factory=dict)
    busy: dict[str, tuple[array[float], array[float]]] = field(default_factory=dict)
    events: int = 0

    @property
    def table_us(self) -> Durations:
        """The durations that are compared: the GPU's, where it has any."""
        return self.gpu_us or self.host_us


@dataclass(frozen=True)
class Gaps:
    """Time between the first start and the last end in which no kernel ran, over all devices."""

    span_us: float
    busy_us: float
    count: int
    largest_us: float

    @property
    def idle_us(self) -> float:
        return self.span_us - self.busy_us


def compare(pair: Pair) -> Record:
    """Compare the tables of kernels: added, deleted, recounted, slower, faster, unchanged."""
    a, b = pair.read(lambda blob: read(blob, pair.limits.unpacked_bytes))
    rel = pair.rule.rel if pair.rule.rel is not None else _USUAL_REL
    classes, places = _table(a.table_us, b.table_us, rel, pair.rule.abs or 0.0)
    status: Status = "within"
    if bool(a.gpu_us) != bool(b.gpu_us):
        status = "different"
        places.insert(0, Location("events of a GPU", _yes(a.gpu_us), _yes(b.gpu_us)))
    elif classes["unchanged"] < sum(classes.values()):
        status = "different"
    elif a.gpu_us == b.gpu_us and a.host_us == b.host_us:
        status = "equal"
    return pair.record(
        status,
        metrics={
            **classes,
            "launches_a": sum(map(len, a.table_us.values())),
            "launches_b": sum(map(len, b.table_us.values())),
            "total_us_a": math.fsum(map(sum, a.table_us.values())),
            "total_us_b": math.fsum(map(sum, b.table_us.values())),
            **_gap_metrics(gaps(a), "a"),
            **_gap_metrics(gaps(b), "b"),
        },
        locations=places,
        note=_note(a, b),
        tolerance=f"rel {rel:g} of a name's total time",
    )


def check(pair: Pair) -> None:
    read(pair.a, pair.limits.unpacked_bytes)


def read(blob: Blob, most_bytes: int) -> Trace:
    """Stream a trace.

    Raises:
        Unreadable: not JSON, cut off, no trace, or an event without a usable time.
        Skipped: it unpacks to more bytes, or has more events, than are read.
    """
    trace = Trace()
    try:
        with _unpacked(blob, most_bytes) as (file, layout):
            for event in _events(file, layout):
                _take(event, trace)
    except ijson.JSONError as error:
        raise Unreadable(f"is no whole JSON: {' '.join(str(error).split())[:120]}") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise Unreadable(f"is damaged gzip: {error}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: {error.reason}") from error
    except OverflowError as error:
        raise Unreadable(f"has a time beyond all numbers: {error}") from error
    if not trace.events:
        raise Unreadable("has no event with a duration")
    return trace


def gaps(trace: Trace) -> Gaps | None:
    """Idle time by the union of the intervals of each device; None without a GPU."""
    if not trace.busy:
        return None
    span = busy = largest = 0.0
    count = 0
    for starts, ends in trace.busy.values():
        order = np.argsort(starts, kind="stable")
        start, end = np.asarray(starts)[order], np.asarray(ends)[order]
        reach = np.maximum.accumulate(end)
        between = start[1:] - reach[:-1]
        idle = between[between > 0]
        span += float(reach[-1] - start[0])
        busy += float(reach[-1] - start[0] - idle.sum())
        count += int(idle.size)
        largest = max(largest, float(idle.max(initial=0.0)))
    return Gaps(span, busy, count, largest)


@contextmanager
def _unpacked(blob: Blob, most_bytes: int) -> Iterator[tuple[_Bounded, bytes]]:
    """The text of a trace, and its first character that is no blank."""
    packed = blob.head(2) == b"\x1f\x8b"

    def opened(raw: IO[bytes]) -> IO[bytes] | gzip.GzipFile:
        return gzip.GzipFile(fileobj=raw) if packed else raw

    with blob.open() as raw:
        layout = opened(raw).read(_HEAD_BYTES).lstrip()[:1]
    with blob.open() as raw:
        yield _Bounded(opened(raw), most_bytes), layout


class _Bounded:
    """A stream that refuses to give more than a number of bytes: gzip grows a thousandfold."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, most_bytes: int) -> None:
        self._file = file
        self._left = most_bytes

    def read(self, count: int = -1) -> bytes:
        piece = self._file.read(count if count >= 0 else self._left + 1)
        self._left -= len(piece)
        if self._left < 0:
            raise Skipped("unpacks to more bytes than are read")
        return piece


def _events(file: _Bounded, layout: bytes) -> Iterator[Any]:
    """The events of both layouts: an object with `traceEvents`, or the list itself."""
    prefix = "item" if layout == b"[" else "traceEvents.item"
    for event in ijson.items(file, prefix, use_float=True):
        if not isinstance(event, Mapping):
            raise Unreadable(f"has an event that is none: {str(event)[:80]}")
        yield event


def _take(event: Mapping[str, Any], trace: Trace) -> None:
    if event.get("ph") != "X":
        return
    name, start, duration = str(event.get("name")), _time(event.get("ts")), _time(event.get("dur"))
    if start is None or duration is None or duration < 0:
        times = f"{event.get('ts')!r} and {event.get('dur')!r}"
        raise Unreadable(f"the event `{name[:80]}` has the times {times[:80]}")
    trace.events += 1
    if trace.events > _MOST_EVENTS:
        raise Skipped(f"has more than {_MOST_EVENTS} events")
    if str(event.get("cat", "")).lower() not in _GPU_CATEGORIES:
        trace.host_us.setdefault(name, array("d")).append(duration)
        return
    trace.gpu_us.setdefault(name, array("d")).append(duration)
    starts, ends = trace.busy.setdefault(str(event.get("pid")), (array("d"), array("d")))
    starts.append(start)
    ends.append(start + duration)


def _time(value: Any) -> float | None:
    """A time in microseconds; None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def _table(
    a: Durations, b: Durations, rel: float, absolute: float
) -> tuple[dict[str, int], list[Location]]:
    classes = dict.fromkeys(
        ("added", "deleted", "recounted", "increased", "decreased", "unchanged"), 0
    )
    rows = []
    for name in {*a, *b}:
        one, two = a.get(name), b.get(name)
        kind = _class(one, two, rel, absolute)
        classes[kind] += 1
        if kind != "unchanged":
            delta = (sum(two) if two else 0.0) - (sum(one) if one else 0.0)
            rows.append((abs(delta), name, kind, one, two, delta))
    rows.sort(key=lambda row: (-row[0], row[1]))
    places = [
        Location(f"{demangled(name)} ({kind})", _shown(one), _shown(two), delta)
        for _, name, kind, one, two, delta in rows
    ]
    return classes, places


def _class(one: array[float] | None, two: array[float] | None, rel: float, absolute: float) -> str:
    if one is None or two is None:
        return "added" if one is None else "deleted"
    if len(one) != len(two):
        return "recounted"
    before, after = sum(one), sum(two)
    if abs(after - before) <= absolute + rel * before:
        return "unchanged"
    return "increased" if after > before else "decreased"


def _shown(durations: array[float] | None) -> str:
    if durations is None:
        return ""
    median = float(np.median(np.asarray(durations)))
    return f"{len(durations)} x, {sum(durations):.4g} us, median {median:.4g} us"


def _gap_metrics(found: Gaps | None, side: str) -> dict[str, float]:
    if found is None:
        return {}
    return {
        f"span_us_{side}": found.span_us,
        f"busy_us_{side}": found.busy_us,
        f"idle_us_{side}": found.idle_us,
        f"gaps_{side}": found.count,
        f"largest_gap_us_{side}": found.largest_us,
    }


def _note(a: Trace, b: Trace) -> str:
    if not a.gpu_us and not b.gpu_us:
        return "no events of a GPU; the table is the host's"
    return "" if a.host_us == b.host_us else "events of the host differ, which are not judged"


def _yes(durations: Durations) -> str:
    return "yes" if durations else "none"
