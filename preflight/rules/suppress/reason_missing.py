"""A suppression must say why."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.suppress.places import span
from preflight.settle import SuppressionUse

RULE = Rule(
    name="reason-missing",
    code="SUP001",
    title="A suppression gives no reason",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="nobody can tell later whether the finding was wrong or the deadline was near",
    help="write ` -- reason` after the bracket",
)


def check_suppression(use: SuppressionUse) -> Iterator[Hit]:
    item = use.suppression
    if not item.problem and not item.reason:
        yield Hit(span(item), f"no reason for ignoring {', '.join(f'`{r}`' for r in item.rules)}")
