"""A number without a tolerance or a unit cannot be judged."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.syntax.yaml import YamlFile, item, items, scalar

RULE = Rule(
    name="tolerance-missing",
    code="EXP009",
    title="An expected number has no tolerance or no unit",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="nobody can say whether the result hit: 640 may be microseconds or milliseconds, "
    "and 641 a miss",
    help='give `rel:` or `abs:` (or `exact: true`), and the `unit:` of the entry (`"1"` for a '
    "plain number)",
    needs=(b"entries",),
    fix=Grade.DISPLAY,
)


def check_yaml(file: YamlFile, config: Config) -> Iterator[Hit]:
    if "ledger" not in file.top_level:
        return
    for entry in items(file.get("entries")):
        expect = item(entry, "expect")
        value = item(expect, "value")
        exact = scalar(item(expect, "exact")) == "true"
        name = scalar(item(entry, "id")) or "(no id)"
        if value is not None and not exact and not any(item(expect, key) for key in ("rel", "abs")):
            yield file.hit(
                file.at(value), f"`{name}` expects `{scalar(value)}` without a tolerance"
            )
        interval = item(expect, "interval")
        place = value if value is not None else interval
        counted = interval is not None or (value is not None and not exact)
        if (
            place is not None
            and counted
            and item(entry, "unit") is None
            and item(expect, "ratio_to") is None
        ):
            yield file.hit(file.at(place), f"`{name}` expects a number without a unit")
