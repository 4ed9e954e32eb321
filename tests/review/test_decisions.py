"""Decisions: kept beside the run as they are made, and never more than they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import reading
from orchestrator.diff.record import Record
from orchestrator.errors import InputError, SpecError
from orchestrator.report.view import RunView
from orchestrator.review import draft
from orchestrator.review.desk import Desk
from orchestrator.spec.document import load
from orchestrator.spec.ledger import by_id, read_ledger
from orchestrator.store.rundir import RunDir

REASON = "the new tail handling costs three microseconds"
NEW_ROWS = "new:rows@measure[n=2]"


def test_misses_are_open_and_what_is_new_is_not(view: RunView) -> None:
    desk = Desk(view)
    assert [s.id for s in desk.open] == ["ledger:time.one", "ledger:time.two", "ledger:never"]
    assert NEW_ROWS in desk.subjects


def test_an_acceptance_needs_a_reason(view: RunView) -> None:
    desk = Desk(view)
    with pytest.raises(InputError, match="needs a reason of at least 12 characters"):
        desk.decide("ledger:time.one", "accepted", "  ok  ")
    with pytest.raises(InputError, match="no verdict"):
        desk.decide("ledger:time.one", "maybe", REASON)
    with pytest.raises(InputError, match="nothing named"):
        desk.decide("ledger:other", "rejected", "")
    assert not (view.folder.path / "review.yaml").exists()


def test_a_decision_outlives_the_reader(view: RunView) -> None:
    desk = Desk(view, by="A Tester")
    desk.decide("ledger:time.one", "accepted", REASON)
    desk.decide("ledger:time.two", "rejected", "")
    again = Desk(view)
    assert [s.id for s in again.open] == ["ledger:never"]
    found = again.decided(again.subjects["ledger:time.one"])
    assert found is not None
    assert (found.verdict, found.reason, found.by) == ("accepted", REASON, "A Tester")
    again.undo("ledger:time.one")
    assert [s.id for s in Desk(view).open] == ["ledger:time.one", "ledger:never"]


def test_two_reviews_of_one_run_lose_no_decision(view: RunView) -> None:
    one, two = Desk(view), Desk(view)

    one.decide("ledger:time.one", "accepted", REASON)
    two.decide("ledger:time.two", "rejected", "")

    assert [s.id for s in Desk(view).open] == ["ledger:never"]


def test_a_decision_holds_only_for_what_it_was_made_on(view: RunView, before: RunDir) -> None:
    other = reading.view(before)
    same = Record("x.npy", "npy", "different", metrics={"max_abs": 1.0})
    desk = Desk(view, other, [same])
    (subject,) = [s for s in desk.open if s.kind == "difference"]
    desk.decide(subject.id, "accepted", REASON)
    assert subject not in Desk(view, other, [same]).open
    worse = Record("x.npy", "npy", "different", metrics={"max_abs": 2.0})
    assert [s.id for s in Desk(view, other, [worse]).open if s.kind == "difference"] == [subject.id]


def test_what_settled_differences_need_is_nothing(view: RunView, before: RunDir) -> None:
    records = [Record("a", "npy", "within"), Record("b", "text", "equal_after_masks")]
    kinds = {s.kind for s in Desk(view, reading.view(before), records).open}
    assert kinds == {"ledger"}


def test_the_next_ledger_is_drafted_and_nothing_is_replaced(view: RunView, sealed: str) -> None:
    desk = Desk(view)
    desk.decide("ledger:time.one", "accepted", REASON)
    desk.decide("ledger:time.two", "rejected", "that is too slow")
    desk.decide(NEW_ROWS, "accepted", "the rows of two tiles of 64")
    done = desk.finish()
    assert (done.accepted, done.rejected, done.open) == (2, 1, 1)
    assert done.ledger is not None
    text = done.ledger.read_text("utf-8")
    assert "# A comment that a draft must keep." in text
    entries = by_id(read_ledger(load(done.ledger)))
    one = entries["time.one"]
    assert (one.expect.value, one.expect.rel) == (13, 0.05)
    assert one.source == f"prior_run:{view.record.run_id}"
    assert REASON in one.because
    assert "before: 10 ±5 % us" in one.because
    assert entries["time.two"].expect.interval == (19, 21), "a rejected value changes nothing"
    rows = entries["rows.n2"]
    assert (rows.expect.value, rows.expect.exact, rows.severity) == (128, True, "info")
    assert "value: 128\n" in text
    assert "value: 13," in text
    assert view.folder.ledger.read_text("utf-8") == sealed
    assert (view.folder.path.parent.parent / "pair.ledger.yaml").read_text("utf-8") == sealed


def test_accepting_what_was_not_measured_changes_no_entry_and_says_so(
    view: RunView, sealed: str
) -> None:
    desk = Desk(view)
    desk.decide("ledger:never", "accepted", REASON)
    desk.decide("ledger:time.one", "accepted", REASON)

    done = desk.finish()

    assert done.unchanged == ("never",)
    assert "1 accepted entry stays as it was in the ledger" in done.words
    written = load(view.folder.path / "review.yaml").data
    assert written["unchanged"] == ["never"]
    assert done.ledger is not None
    entries = by_id(read_ledger(load(done.ledger)))
    before = by_id(read_ledger(load(view.folder.ledger)))
    assert entries["never"] == before["never"]
    desk.undo("ledger:never")
    assert desk.finish().unchanged == ()


@pytest.mark.parametrize(
    ("value", "written"),
    [(131072.0, "131072"), (131072, "131072"), (13.0, "13"), (1.23456, "1.235"), (0.0, "0")],
)
def test_whole_numbers_are_drafted_as_such(value: float, written: str) -> None:
    assert str(draft.rounded(value)) == written


def test_without_an_acceptance_there_is_no_draft(view: RunView) -> None:
    desk = Desk(view)
    desk.decide("ledger:time.one", "rejected", "")
    assert desk.finish().ledger is None
    assert not (view.folder.path / "ledger.next.yaml").exists()


def test_a_damaged_review_is_an_error_and_stays(view: RunView) -> None:
    path: Path = view.folder.path / "review.yaml"
    path.write_text("review: x\ndecisions:\n  - {subject: a, verdict: perhaps}\n", "utf-8")
    with pytest.raises(SpecError, match=r"review\.yaml:3"):
        Desk(view)
    assert "perhaps" in path.read_text("utf-8")
