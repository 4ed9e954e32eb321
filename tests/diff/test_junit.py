"""JUnit XML that a strict parser takes, whatever is in the paths and notes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from orchestrator.diff import junit
from orchestrator.diff.comparison import Comparison, Named
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
