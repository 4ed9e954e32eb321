"""A suppression that silences nothing hides the next mistake."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Edit, Fix, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.suppress.places import span
from preflight.settle import SuppressionUse
from preflight.source import safe
from preflight.suppressions import Suppression

RULE = Rule(
    name="unused-suppression",
    code="SUP002",
    title="A suppression silences nothing",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="it would hide a new mistake on this line without anybody deciding so",
    help="remove it (`--fix`)",
    fix=Grade.SAFE,
)


def check_suppression(use: SuppressionUse) -> Iterator[Hit]:
    """Judge only rules that ran on this file: those outside the profile may well be needed."""
    item = use.suppression
    if item.problem or item.expired(use.today):
        return
    unused = [
        w for w in item.rules if (n := use.rules.canonical(w)) in use.judged and n not in use.used
    ]
    if unused:
        shown = ", ".join(f"`{word}`" for word in unused)
        verb = "is" if len(unused) == 1 else "are"
        yield Hit(span(item), f"{shown} {verb} not found here", fix=_fix(item, unused))


def _fix(item: Suppression, unused: list[str]) -> Fix:
    """Remove the comment when all its rules are unused, else rewrite the list."""
    kept = [word for word in item.rules if word not in unused]
    if not kept:
        return safe("remove the suppression", Edit(item.cut_start, item.cut_end, ""))
    words = ", ".join(kept)
    return safe(f"keep only `{words}`", Edit(item.list_start, item.list_end, words))
