"""What ran when, read from a trace: Chrome and Kineto JSON, plain or gzip, streamed.

Times are microseconds, as the format has them.
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
from orchestrator.diff.refusal import Skipped, Unreadable

_GPU_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "concurrent_kernel", "gpu_op"})
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
