"""What a run comes to in a few words, and what to do next: the same words in every view."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.report.view import RunView
from orchestrator.verdict import decision
from orchestrator.verdict.item import MISS

_LEVELS = {0: "good", 1: "bad", 3: "unsure", 6: "unsure"}


@dataclass(frozen=True)
class Verdict:
    """`level` is good, unsure, bad, or plain where nothing was predicted that could be good."""

    level: str
    words: str
    next_action: str


def verdict_of(view: RunView) -> Verdict:
    """The verdict that the run's exit code stands for."""
    level = _LEVELS.get(view.exit_code, "bad")
    if view.exit_code == 0 and not any(item.is_predicted for item in view.items):
        level = "plain"
    words = decision.words(view.exit_code, view.items)
    return Verdict(level, words[0].upper() + words[1:], _next(view))


def _next(view: RunView) -> str:
    run_id = view.record.run_id
    missed = [i for i in view.items if i.status == MISS and i.severity == "blocker"]
    bad = [job for job in view.history.jobs.values() if job.state in ("failed", "timed_out")]
    if bad:
        return f"read the log of the first step that did not pass: orch logs {run_id} '{bad[0].id}'"
    if missed and missed[0].decides:
        return f"decide {missed[0].decides}, then settle the misses: orch review {run_id}"
    if missed:
        return f"settle the misses, each with a reason: orch review {run_id}"
    if view.exit_code == 3:
        return "see what was not measured, and run again when that is mended"
    return f"keep it: orch verify {run_id} checks it again at any time"
