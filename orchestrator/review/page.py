"""The review's page: what to decide first, then the evidence it is decided on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.diff.record import Record
from orchestrator.report.html.section import templates
from orchestrator.report.html.sections import (
    banner,
    conditions,
    rounds,
    stages,
    steps,
    sweeps,
    timeline,
)
from orchestrator.review import against
from orchestrator.review.content import File, by_path
from orchestrator.review.decision import MIN_REASON, Decision
from orchestrator.review.desk import Desk
from orchestrator.review.subject import KINDS, Subject

EVIDENCE = (
    conditions.section,
    sweeps.section,
    stages.section,
    rounds.section,
    timeline.section,
    steps.section,
)
MAX_SUBJECTS = 2000
FILTERS = (
    ("", "all"),
    ("open", "open"),
    ("step", "steps"),
    ("miss", "misses"),
    ("ended", "ended otherwise"),
    ("metric", "metrics"),
    ("difference", "differences"),
    ("new", "new"),
    ("accepted", "accepted"),
    ("rejected", "rejected"),
    ("settled", "settled"),
)
MODES = (("side", "side by side"), ("overlay", "overlay"), ("difference", "difference"))


@dataclass(frozen=True)
class Card:
    """One subject as the page shows it."""

    subject: Subject
    decision: Decision | None
    stale: Decision | None
    files: Sequence[File]
    is_image: bool
    alike: int = 1
    """How many are open that most likely have its cause, itself included."""

    @property
    def state(self) -> str:
        if self.decision is not None:
            return self.decision.verdict
        return "open" if self.subject.is_open else "settled"

    @property
    def known(self) -> str:
        """The mark of the decision that is shown, also of one that no longer holds."""
        shown = self.decision or self.stale
        return shown.mark if shown is not None else ""

    @property
    def modes(self) -> Sequence[tuple[str, str]]:
        """The ways in which its two images can be looked at."""
        record = self.subject.record
        marked = record is not None and "changed_pixels" in record.metrics and len(self.files) == 2
        return (*MODES, ("changed", "changed pixels")) if marked else MODES

    @property
    def parts(self) -> Sequence[Record]:
        return self.subject.record.children if self.subject.record else ()


def page(desk: Desk) -> str:
    """The page as it stands now."""
    subjects = sorted(desk.subjects.values(), key=_open_first)
    alike = Counter(subject.like for subject in desk.open)
    evidence = [found for build in EVIDENCE if (found := build(desk.view)) is not None]
    if desk.comparison is not None:
        evidence.insert(0, against.section(desk.comparison))
    return (
        templates("orchestrator.review")
        .get_template("review.html.j2")
        .render(
            view=desk.view,
            other=desk.other,
            against=desk.review.against,
            verdict=banner.section(desk.view),
            cards=[_card(desk, subject, alike) for subject in subjects[:MAX_SUBJECTS]],
            hidden=max(len(subjects) - MAX_SUBJECTS, 0),
            open=len(desk.open),
            min_reason=MIN_REASON,
            evidence=evidence,
            files=_listed(desk),
            filters=FILTERS,
        )
    )


def _open_first(subject: Subject) -> tuple[bool, int]:
    return not subject.is_open, KINDS.index(subject.kind)


def _card(desk: Desk, subject: Subject, alike: Counter[str]) -> Card:
    now = desk.decided(subject)
    earlier = desk.review.by_subject.get(subject.id)
    files: list[File] = []
    if subject.record is not None:
        found = (by_path(desk.files, side, subject.record.path) for side in ("a", "b"))
        files = [file for file in found if file is not None]
    return Card(
        subject=subject,
        decision=now,
        stale=earlier if now is None else None,
        files=files,
        is_image=bool(files) and all(file.image_type for file in files),
        alike=alike[subject.like] if subject.like else 1,
    )


def _listed(desk: Desk) -> Sequence[File]:
    """What a person opens by name: logs and the files of the steps."""
    return [f for f in desk.files.values() if f.path.startswith("steps/")][:MAX_SUBJECTS]
