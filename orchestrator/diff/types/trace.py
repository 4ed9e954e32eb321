"""Traces: the table of kernels side by side, and the gaps in which none ran.

A trace is one sample: durations are compared with a wide tolerance unless a rule names one.
"""

from __future__ import annotations

import math
from array import array

import numpy as np

from orchestrator.diff.listings.demangle import demangled
from orchestrator.diff.listings.timeline import Durations, Gaps, Trace, gaps, read
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record, Status

_USUAL_REL = 0.10


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
