"""One review under way: its subjects, its files, and the decisions, saved as they are made."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.agent.journal import now
from orchestrator.diff.blob import Blob
from orchestrator.diff.comparison import Comparison
from orchestrator.diff.confined import Confined
from orchestrator.diff.jobs import JOB
from orchestrator.diff.record import Record
from orchestrator.diff.refusal import Skipped, Unreadable
from orchestrator.errors import InputError
from orchestrator.report.view import RunView
from orchestrator.review import decision, draft
from orchestrator.review.content import File, files_of
from orchestrator.review.decision import Decision, Review
from orchestrator.review.logs import Log
from orchestrator.review.subject import (
    STEP,
    Subject,
    of_ended,
    of_items,
    of_metrics,
    of_records,
    of_steps,
)


@dataclass(frozen=True)
class Finished:
    """What a review left behind."""

    review: Path
    ledger: Path | None
    accepted: int
    rejected: int
    open: int
    unchanged: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What was decided, and what accepting did not change."""
        told = f"{self.accepted} accepted, {self.rejected} rejected, {self.open} open"
        if not self.unchanged:
            return told
        entries = (
            "entry stays as it was" if len(self.unchanged) == 1 else "entries stay as they were"
        )
        return (
            f"{told}; {len(self.unchanged)} accepted {entries} in the ledger, because nothing "
            f"comparable was measured: {', '.join(self.unchanged)}"
        )


class Desk:
    """Decisions come from several requests at once, so each is made under a lock."""

    def __init__(
        self,
        view: RunView,
        other: RunView | None = None,
        records: Sequence[Record] = (),
        by: str = "",
        comparison: Comparison | None = None,
    ) -> None:
        """Begin a review.

        Args:
            other: the run that `view` is held against; None for its ledger.
            records: the artifacts that differ from those of `other`, to be decided.
            by: who decides.
            comparison: what else is known of both runs: what it calls different is decided on
                too, the rest is read.
        """
        self.view, self.other, self.by, self.comparison = view, other, by, comparison
        against = other.record.run_id if other else "ledger"
        alone = [*of_steps(view.history), *of_items(view.items)]
        beside: list[Subject] = []
        if comparison is not None:
            beside += of_ended(comparison.ended, against, alone)
            beside += of_metrics(comparison.metrics, against)
            # Asked about once: with what became of it in the other run.
            otherwise = {f"{STEP}:{one.id}" for one in comparison.ended if one.kind == JOB}
            alone = [subject for subject in alone if subject.id not in otherwise]
        subjects = [*alone, *beside, *of_records(records, against)]
        self.subjects: Mapping[str, Subject] = {subject.id: subject for subject in subjects}
        self.files: Mapping[str, File] = files_of("b", view) | (
            files_of("a", other) if other else {}
        )
        self.review: Review = decision.read(view.folder, against)
        self._lock = threading.Lock()
        self._drawing = threading.Lock()
        self._logs: dict[str, Log] = {}

    @property
    def open(self) -> list[Subject]:
        return decision.still_open(self.review, list(self.subjects.values()))

    def decided(self, subject: Subject) -> Decision | None:
        return self.review.of(subject)

    def decide(
        self, subject_id: str, verdict: str, reason: str, known: str | None = None
    ) -> Decision:
        """Accept or reject, and save.

        Args:
            known: the mark of the decision that the reader saw; empty for none.

        Raises:
            InputError: there is no such subject, or the reason is missing.
            Superseded: another decision was made meanwhile.
        """
        subject = self._subject(subject_id)
        made = decision.decide(subject, verdict, reason, self.by)
        with self._lock:
            self._reread()
            self.review.check(subject.id, known)
            self._save(self.review.with_decision(made))
        return made

    def others(self, subject: Subject) -> list[Subject]:
        """What is open besides a subject and most likely has its cause."""
        if not subject.like:
            return []
        return [s for s in self.open if s.like == subject.like and s.id != subject.id]

    def decide_others(self, subject_id: str, verdict: str, reason: str) -> list[Decision]:
        """Decide the same on the others that are like a subject; arguments and errors as above."""
        subject = self._subject(subject_id)
        with self._lock:
            self._reread()
            made = [decision.decide(s, verdict, reason, self.by) for s in self.others(subject)]
            review = self.review
            for one in made:
                review = review.with_decision(one)
            if made:
                self._save(review)
        return made

    def undo(self, subject_id: str, known: str | None = None) -> None:
        """Take a decision back; arguments and errors as of `decide`."""
        subject = self._subject(subject_id)
        with self._lock:
            self._reread()
            self.review.check(subject.id, known)
            self._save(self.review.without(subject.id))

    def finish(self) -> Finished:
        """Close the review and draft the next ledger from what was accepted.

        What is still open stays open, and is counted: a review may be taken up again.
        """
        with self._lock:
            self._reread()
            subjects = list(self.subjects.values())
            kept = tuple(draft.unchanged(self.review, subjects))
            closed = {"finished_at": now(), "unchanged": kept}
            self._save(self.review.model_copy(update=closed))
            ledger = draft.draft(self.view, self.review, subjects)
        verdicts = [found.verdict for s in subjects if (found := self.review.of(s))]
        return Finished(
            review=decision.place_of(self.view.folder),
            ledger=ledger,
            accepted=verdicts.count("accepted"),
            rejected=verdicts.count("rejected"),
            open=len(self.open),
            unchanged=kept,
        )

    def log(self, key: str) -> Log:
        """A text file, opened for windows and search.

        Raises:
            InputError: there is no such file, or it is no text.
        """
        file = self.files.get(key)
        if file is None or not file.is_text:
            raise InputError(f"no text file has the key `{key}`")
        with self._lock:
            if key not in self._logs:
                self._logs[key] = Log(file.place)
            return self._logs[key]

    def overlay(self, key_a: str, key_b: str) -> bytes:
        """A PNG of the image of side B with what side A has otherwise in red.

        Raises:
            InputError: there are no such files, or no picture can be made of them.
        """
        files = [self.files.get(key) for key in (key_a, key_b)]
        blobs = [Blob(file.place, file.size) for file in files if file is not None]
        if len(blobs) != 2:
            raise InputError(f"no two files have the keys `{key_a}` and `{key_b}`")
        try:
            # One at a time: each decodes two images of the host's in a process of its own.
            with self._drawing, Confined() as confined:
                return confined.overlay(*blobs)
        except (Unreadable, Skipped) as error:
            raise InputError(f"no overlay of `{key_a}` and `{key_b}`: {error}") from error

    def _subject(self, subject_id: str) -> Subject:
        try:
            return self.subjects[subject_id]
        except KeyError:
            raise InputError(f"there is nothing named `{subject_id}` to decide on") from None

    def _reread(self) -> None:
        """Another review of this run may be under way in another process."""
        self.review = decision.read(self.view.folder, self.review.against)

    def _save(self, review: Review) -> None:
        decision.write(self.view.folder, review)
        self.review = review
