"""review.yaml: what was decided on a run, by whom and why. It lies beside the run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator
from ruamel.yaml import YAML

from orchestrator.agent.journal import now
from orchestrator.errors import InputError
from orchestrator.review.subject import Subject
from orchestrator.spec.document import load
from orchestrator.spec.model import Model, validate
from orchestrator.spec.quantity import wrong
from orchestrator.store.rundir import RunDir, write_atomically

Verdict = Literal["accepted", "rejected"]
_REOPENED: Mapping[str, Any] = {"finished_at": None, "unchanged": ()}
MIN_REASON = 12
"""As long as the shortest `because` of a ledger: an accepted value becomes one."""


class Decision(Model):
    """One decision, and what it was made on."""

    subject: str
    verdict: Verdict
    reason: Annotated[str, StringConstraints(strip_whitespace=True)] = ""
    seen: str = ""
    at: str = ""
    by: str = ""

    @property
    def mark(self) -> str:
        """Names this very decision, so that a page can say which one it knew."""
        told = "\0".join((self.verdict, self.reason, self.seen, self.at, self.by))
        return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:16]

    @model_validator(mode="after")
    def _accepts_with_a_reason(self) -> Decision:
        if self.verdict == "accepted" and len(self.reason) < MIN_REASON:
            raise wrong(
                f"accepted with the reason `{self.reason}`",
                f"a reason of {MIN_REASON} characters or more: the next reader has only that",
            )
        return self


class Superseded(Exception):
    """Another decision on the subject was made meanwhile; None when it was taken back."""

    def __init__(self, newer: Decision | None) -> None:
        told = f"{newer.verdict}: {newer.reason or 'no reason'}" if newer else "taken back"
        super().__init__(f"decided elsewhere meanwhile ({told}); this was not saved")
        self.newer = newer


class Review(Model):
    """The whole file."""

    review: str
    """The run."""
    against: str = "ledger"
    """What it was last reviewed against."""
    finished_at: str | None = None
    unchanged: tuple[str, ...] = ()
    """Accepted entries that the draft leaves as they were: nothing comparable was measured."""
    decisions: tuple[Decision, ...] = Field(default_factory=tuple)

    def check(self, subject: str, known: str | None) -> None:
        """See that nothing was decided that the reader did not know of.

        Args:
            known: the mark of the decision that was shown; empty for none, None to check nothing.

        Raises:
            Superseded: another decision stands there now.
        """
        found = self.by_subject.get(subject)
        if known is not None and known != (found.mark if found else ""):
            raise Superseded(found)

    def of(self, subject: Subject) -> Decision | None:
        """What was decided on a subject as it is now; None when it has changed since."""
        found = self.by_subject.get(subject.id)
        return found if found is not None and found.seen == subject.seen else None

    @property
    def by_subject(self) -> Mapping[str, Decision]:
        return {decision.subject: decision for decision in self.decisions}

    def with_decision(self, decision: Decision) -> Review:
        """With a decision in the place of an earlier one on the same subject."""
        kept = [d for d in self.decisions if d.subject != decision.subject]
        return self.model_copy(update={"decisions": (*kept, decision), **_REOPENED})

    def without(self, subject: str) -> Review:
        kept = tuple(d for d in self.decisions if d.subject != subject)
        return self.model_copy(update={"decisions": kept, **_REOPENED})


def decide(subject: Subject, verdict: str, reason: str, by: str = "") -> Decision:
    """A decision made now.

    Raises:
        InputError: it accepts without a reason, or is neither acceptance nor rejection.
    """
    if verdict not in ("accepted", "rejected"):
        raise InputError(f"`{verdict}` is no verdict", expected="accepted or rejected")
    if verdict == "accepted" and len(reason.strip()) < MIN_REASON:
        raise InputError(
            f"accepting needs a reason of at least {MIN_REASON} characters",
            expected="what the next reader needs to know: there is nothing else to go by",
        )
    return Decision(
        subject=subject.id,
        verdict="accepted" if verdict == "accepted" else "rejected",
        reason=reason.strip(),
        seen=subject.seen,
        at=now(),
        by=by,
    )


def still_open(review: Review, subjects: Sequence[Subject]) -> list[Subject]:
    """What needs a decision and has none."""
    return [s for s in subjects if s.is_open and review.of(s) is None]


def place_of(folder: RunDir) -> Path:
    return folder.path / "review.yaml"


def read(folder: RunDir, against: str) -> Review:
    """The review of a run so far; an empty one when there is none.

    Raises:
        SpecError: the file is there and wrong; it is never overwritten.
    """
    path = place_of(folder)
    if not path.exists():
        return Review(review=folder.run_id, against=against)
    return validate(Review, load(path)).model_copy(update={"against": against})


def write(folder: RunDir, review: Review) -> None:
    """Put the review beside its run, whole or not at all."""
    text = StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.dump(review.model_dump(exclude_defaults=True) | {"review": review.review}, text)
    write_atomically(place_of(folder), text.getvalue())
