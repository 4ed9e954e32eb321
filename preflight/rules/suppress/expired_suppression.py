"""A suppression with a date that has passed."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.suppress.places import span
from preflight.settle import SuppressionUse

RULE = Rule(
    name="expired-suppression",
    code="SUP004",
    title="A suppression has expired",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="its findings are shown again",
    help="repair what it covered, or decide anew and set a later `until=`",
)


def check_suppression(use: SuppressionUse) -> Iterator[Hit]:
    if use.suppression.expired(use.today):
        yield Hit(span(use.suppression), f"valid until {use.suppression.until}, which has passed")
