"""A comment that begins like a suppression and is none."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.rules.suppress.places import span
from preflight.settle import SuppressionUse

RULE = Rule(
    name="malformed-suppression",
    code="SUP005",
    title="A comment begins like a suppression and does not follow the grammar",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="it silences nothing: there is no blanket form",
    help="write `preflight: ignore[rule] -- reason`, with `until=YYYY-MM-DD` before the dashes if "
    "it shall end",
)


def check_suppression(use: SuppressionUse) -> Iterator[Hit]:
    if use.suppression.problem:
        yield Hit(span(use.suppression), f"not a suppression: {use.suppression.problem}")
