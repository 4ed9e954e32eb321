"""JUnit XML that a strict parser takes, whatever is in the paths and notes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from orchestrator.diff import junit
from orchestrator.diff.comparison import Comparison, Named
from orchestrator.diff.jobs import Ended
from orchestrator.diff.measures.contrast import Contrast, Level, Outcome
from orchestrator.diff.measures.points import ORDER as OUTCOMES
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.diff.record import ORDER, Location, Record
from orchestrator.errors import InputError

A, B = Named("a", "directory"), Named("b", "directory")
EVIL = "\x00\x1b[31m<script>&\ud800\uffff]]>"


def rendered(*records: Record) -> ElementTree.Element:
    root = ElementTree.fromstring(junit.render(Comparison(A, B, artifacts=records)))
    suite = root.find("testsuite[@name='artifacts']")
    assert suite is not None
    return suite


def test_each_status_has_its_mark() -> None:
    suite = rendered(*(Record(status, "text", status) for status in ORDER))

    marks = {case.get("name"): [child.tag for child in case] for case in suite}
    assert marks == {
        "unreadable": ["error"],
        "different": ["failure"],
        "only_a": ["failure"],
        "only_b": ["failure"],
        "skipped": ["skipped"],
        "within": [],
        "equal_after_masks": [],
        "equal": [],
    }
    assert [suite.get(k) for k in ("tests", "failures", "errors", "skipped")] == list("8311")


def test_text_that_xml_cannot_hold_is_replaced() -> None:
    place = Location(EVIL, EVIL, EVIL)
    record = Record(EVIL, "text", "different", note=EVIL, locations=(place,))

    (case,) = rendered(record)

    assert "<script>" in str(case.get("name"))
    assert "\x1b" not in str(case.get("name"))
    assert "<script>" in str(case[0].text)


def test_what_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        junit.write(Comparison(A, B), tmp_path / "gone" / "x.xml")


def sums(comparison: Comparison) -> dict[str, int]:
    suites = ElementTree.fromstring(junit.render(comparison))
    return {k: sum(int(s.get(k, "")) for s in suites) for k in ("failures", "errors", "skipped")}


def metric(outcome: Outcome) -> MetricDiff:
    one, two = Level(1, point_class="exact", value=64), Level(1, point_class="exact", value=67)
    return MetricDiff("rows", "s", {"n": 1}, Contrast(outcome, one, two, "By"))


PARTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a job": {"ended": (Ended("job", "j", "passed", "failed"),)},
    "an entry": {"ended": (Ended("entry", "e", "hit", "miss"),)},
    "a note": {"problems": ("A: results.jsonl:3: not a result",)},
    **{f"artifact {status}": {"artifacts": (Record("x", "text", status),)} for status in ORDER},
    **{f"metric {outcome}": {"metrics": (metric(outcome),)} for outcome in OUTCOMES},
}


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations_with_replacement(PARTS, 2)))
def test_green_never_means_that_the_sides_differ(one: str, two: str) -> None:
    comparison = Comparison(A, B, **{**PARTS[one], **PARTS[two]})

    found = sums(comparison)

    assert (comparison.exit_code == 1) == (found["failures"] > 0)
    if comparison.exit_code == 3:
        assert found["errors"] + found["skipped"] > 0
    if comparison.exit_code == 0:
        assert found["errors"] == 0


def test_messages_say_what_is_on_either_side_with_its_unit() -> None:
    comparison = Comparison(A, B, **PARTS["a job"], metrics=(metric("different"),))

    failures = ElementTree.fromstring(junit.render(comparison)).iter("failure")

    assert [failure.get("message") for failure in failures] == [
        "ended otherwise: passed -> failed",
        "different: 64 By -> 67 By",
    ]
