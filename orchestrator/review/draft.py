"""The next ledger, drafted from what a review accepted; a person commits it, nobody else."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from orchestrator.errors import EvidenceError
from orchestrator.report.view import RunView
from orchestrator.review.decision import Decision, Review
from orchestrator.review.subject import LEDGER, NEW, Subject
from orchestrator.spec.document import parse
from orchestrator.spec.ledger import Expect, read_ledger
from orchestrator.store.rundir import write_atomically
from orchestrator.verdict.item import Item

DIGITS = 4
"""Significant digits of a measured number that becomes a centre."""
NEW_TOLERANCE = "5%"


def place_of(view: RunView) -> Path:
    return view.folder.path / "ledger.next.yaml"


def draft(view: RunView, review: Review, subjects: Sequence[Subject]) -> Path | None:
    """Write the draft beside the run; None when nothing was accepted that a ledger holds.

    Raises:
        EvidenceError: the draft is no valid ledger, which would be a mistake of ours.
    """
    accepted = [(s.item, d) for s in subjects if (d := _accepted(review, s)) and s.item]
    if not accepted:
        return None
    yaml = YAML()
    yaml.width = 100
    data = _sealed(yaml, view)
    entries = {entry["id"]: entry for entry in data["entries"]}
    for item, decision in accepted:
        if item.id in entries and item.status != "new":
            _update(entries[item.id], item, decision, view.record.run_id)
        else:
            entry = _new_entry(item, decision, view.record.run_id, entries)
            entries[entry["id"]] = entry
            data["entries"].append(entry)
    text = StringIO()
    yaml.dump(data, text)
    path = place_of(view)
    try:
        read_ledger(parse(text.getvalue(), path.name))
    except Exception as error:
        raise EvidenceError(f"the drafted ledger is wrong: {error}") from error
    write_atomically(path, text.getvalue())
    return path


def unchanged(review: Review, subjects: Sequence[Subject]) -> list[str]:
    """Entries whose acceptance changes no prediction: nothing comparable was measured for them."""
    return [
        s.item.id
        for s in subjects
        if s.kind == LEDGER
        and s.item is not None
        and s.is_open
        and (d := review.of(s)) is not None
        and d.verdict == "accepted"
        and _accepted(review, s) is None
    ]


def _accepted(review: Review, subject: Subject) -> Decision | None:
    """The acceptance of a measured value; other acceptances change no prediction."""
    if subject.kind not in (LEDGER, NEW) or subject.item is None:
        return None
    decision = review.of(subject)
    if decision is None or decision.verdict != "accepted" or subject.item.measured is None:
        return None
    return decision if subject.item.status in ("miss", "new") else None


def _sealed(yaml: YAML, view: RunView) -> CommentedMap:
    """The ledger as it was sealed, comments and all; an empty one where there was none."""
    if view.folder.ledger.exists():
        found = yaml.load(view.folder.ledger.read_text("utf-8"))
        assert isinstance(found, CommentedMap), "the ledger was valid when it was sealed"
        return found
    return CommentedMap({"ledger": view.record.experiment, "entries": []})


def _update(entry: CommentedMap, item: Item, decision: Decision, run_id: str) -> None:
    entry["because"] = (
        f"{decision.reason} (accepted in the review of {run_id}; before: {item.expected}, "
        f"because: {entry['because']})"
    )
    entry["source"] = f"prior_run:{run_id}"
    expect = Expect.model_validate(dict(entry["expect"]))
    for key in ("value", "interval", "rel", "abs", "hash"):
        entry["expect"].pop(key, None)
    entry["expect"].update(_centred(expect, item.measured))


def _centred(expect: Expect, measured: Any) -> Mapping[str, Any]:
    """The same kind and width of expectation around the measured value."""
    if expect.kind == "hash":
        return {"hash": measured}
    if expect.kind == "exact" or isinstance(measured, (str, bool)):
        return {"value": _whole(measured), "exact": True}
    if expect.kind == "value":
        kept = {k: v for k, v in (("rel", expect.rel), ("abs", expect.abs)) if v is not None}
        return {"value": rounded(measured), **kept}
    assert expect.interval is not None
    low, high = expect.interval
    if low is None or high is None:
        bound = rounded(measured * (1.05 if (low is None) == (measured > 0) else 0.95))
        return {"interval": [None, bound] if low is None else [bound, None]}
    half = (high - low) / 2
    return {"interval": [rounded(measured - half), rounded(measured + half)]}


def _new_entry(
    item: Item, decision: Decision, run_id: str, taken: Mapping[str, Any]
) -> CommentedMap:
    return CommentedMap(
        {
            "id": _free_id(item, taken),
            "metric": item.metric,
            "step": item.step,
            "where": CommentedMap(item.where),
            "unit": item.unit,
            "expect": _first_expectation(item.measured),
            "because": decision.reason,
            "source": f"prior_run:{run_id}",
            "severity": "info",
        }
    )


def _first_expectation(measured: Any) -> Mapping[str, Any]:
    if isinstance(measured, float) and measured != 0:
        return {"value": rounded(measured), "rel": NEW_TOLERANCE}
    return {"value": _whole(measured), "exact": True}


def _free_id(item: Item, taken: Mapping[str, Any]) -> str:
    """The metric with its point, made an id that no entry has."""
    words = [item.metric, *(f"{axis}{value}" for axis, value in item.where.items())]
    base = re.sub(r"[^A-Za-z0-9_.-]+", "_", ".".join(words)).strip("._-")[:110]
    names = (base if n == 1 else f"{base}.{n}" for n in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def rounded(value: float) -> float:
    """A number of four significant digits; a whole one stays as it is and is written as one."""
    whole = _whole(value)
    if isinstance(whole, int) or not math.isfinite(value):
        return cast("float", whole)
    return cast("float", _whole(float(f"{value:.{DIGITS}g}")))


def _whole(value: Any) -> Any:
    """A count that became a float on its way, as the median of rounds does, as a count again."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
