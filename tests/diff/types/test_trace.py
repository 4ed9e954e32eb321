from __future__ import annotations

import gzip
import json

import pytest

from orchestrator.diff.limits import Limits
from orchestrator.diff.record import Record
from tests.diff.conftest import Compare
from tests.diff.makers import event, trace


def classes(record: Record) -> dict[str, str]:
    named = (place.where.split(" (") for place in record.locations)
    return {name: kind[:-1] for name, kind in named}


def test_each_kernel_has_one_of_six_classes(compare: Compare) -> None:
    a = trace(
        event("same", 0, 10),
        event("slower", 10, 10),
        event("faster", 20, 10),
        event("gone", 30, 10),
        event("twice", 40, 5),
    )
    b = trace(
        event("same", 0, 10.9),
        event("slower", 11, 12),
        event("faster", 23, 8),
        event("new", 31, 1),
        event("twice", 40, 2),
        event("twice", 42, 3),
    )

    record = compare(a, b, "x.trace.json")

    assert record.status == "different"
    names = ("added", "deleted", "recounted", "increased", "decreased", "unchanged")
    assert {name: record.metrics[name] for name in names} == dict.fromkeys(names, 1)
    assert classes(record) == {
        "gone": "deleted",
        "new": "added",
        "slower": "increased",
        "faster": "decreased",
        "twice": "recounted",
    }


def test_gaps_are_what_no_kernel_covers_on_any_stream(compare: Compare) -> None:
    a = trace(event("k", 0, 10), event("k", 5, 10), event("k", 20, 5))
    b = trace(event("k", 0, 10), event("k", 10, 10), event("k", 20, 5))

    record = compare(a, b, "x.trace.json")

    assert record.metrics["span_us_a"] == 25
    assert record.metrics["busy_us_a"] == 20
    assert (record.metrics["idle_us_a"], record.metrics["gaps_a"]) == (5, 1)
    assert (record.metrics["idle_us_b"], record.metrics["gaps_b"]) == (0, 0)


def test_a_rule_sets_what_counts_as_unchanged(compare: Compare) -> None:
    a, b = trace(event("k", 0, 100)), trace(event("k", 0, 130))

    assert compare(a, b, "x.trace.json").status == "different"
    assert compare(a, b, "x.trace.json", rel=0.5).status == "within"
    assert compare(a, b, "x.trace.json", rel=0.0).status == "different"


def test_host_events_are_compared_only_where_no_gpu_has_any(compare: Compare) -> None:
    a = trace(event("k", 0, 5), event("aten::mm", 0, 50, "cpu_op"))
    b = trace(event("k", 0, 5), event("aten::mm", 0, 90, "cpu_op"))
    host_a, host_b = (trace(event("aten::mm", 0, t, "cpu_op")) for t in (50, 90))

    assert compare(a, b, "x.trace.json").status == "within"
    assert "host" in compare(a, b, "x.trace.json").note
    assert compare(host_a, host_b, "x.trace.json").status == "different"


def test_a_trace_that_lost_its_gpu_events_is_different(compare: Compare) -> None:
    a, b = trace(event("k", 0, 5)), trace(event("k", 0, 5, "cpu_op"))

    record = compare(a, b, "x.trace.json")

    assert record.status == "different"
    assert record.locations[0].where == "events of a GPU"


def test_a_list_of_events_is_a_trace_too(compare: Compare) -> None:
    record = compare(
        json.dumps([event("k", 0, 5)]), trace(event("k", 0, 5)), "x.json", type="trace"
    )

    assert record.status == "equal"


@pytest.mark.parametrize(
    "content",
    [
        trace(event("k", 0, 5))[:-3],
        trace(event("k", 0, 5), packed=True)[:-9],
        trace(),
        trace({"ph": "X", "name": "k", "ts": 0}),
        trace({"ph": "X", "name": "k", "ts": "x", "dur": 1}),
        trace({"ph": "X", "name": "k", "ts": 0, "dur": -1}),
        b'{"traceEvents": [{"ph": "X", "name": "k", "ts": 1e999, "dur": 1}]}',
        b'{"traceEvents": [1, 2]}',
        b'{"traceEvents": 7}',
        b"[[[[",
        b'{"traceEvents": [{"ph": "X", "name": "\xff", "ts": 0, "dur": 1}]}',
        b"",
    ],
    ids=range(12),
)
def test_malformed_traces_are_unreadable(content: bytes, compare: Compare) -> None:
    record = compare(trace(event("k", 0, 5)), content, "x.trace.json", type="trace")

    assert record.status == "unreadable"


def test_a_trace_that_unpacks_without_end_is_given_up(compare: Compare) -> None:
    bomb = gzip.compress(b'{"traceEvents": [' + b" " * 5_000_000 + b"]}")

    record = compare(
        trace(event("k", 0, 5)),
        bomb,
        "x.trace.json.gz",
        type="trace",
        limits=Limits(unpacked_bytes=1_000_000),
    )

    assert record.status == "skipped"
    assert "unpacks" in record.note
