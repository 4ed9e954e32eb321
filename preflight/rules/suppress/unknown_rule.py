"""A suppression of a rule that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Edit, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.suppress.places import span
from preflight.settle import SuppressionUse
from preflight.source import safe

RULE = Rule(
    name="unknown-rule",
    code="SUP003",
    title="A suppression names a rule that does not exist",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="it silences nothing, and its author believes that it does",
    help="write the rule's name as `preflight rules` lists it",
    fix=Grade.SAFE,
)


def check_suppression(use: SuppressionUse) -> Iterator[Hit]:
    item = use.suppression
    for word in item.rules:
        if use.rules.canonical(word) is not None:
            continue
        near = use.rules.nearest(word)
        if near is None:
            yield Hit(span(item), f"there is no rule `{word}`")
            continue
        words = ", ".join(near if other == word else other for other in item.rules)
        fix = safe(f"write `{near}`", Edit(item.list_start, item.list_end, words))
        yield Hit(span(item), f"there is no rule `{word}`; did you mean `{near}`?", fix=fix)
