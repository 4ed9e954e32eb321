"""A file that no rule could look into is not a clean file."""

from __future__ import annotations

from preflight.finding import Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import Source

RULE = Rule(
    name="unparsed-file",
    code="TXT004",
    title="A file does not parse",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence="it will fail on the host as well, and no other rule could check it",
    help="correct the syntax, or exclude the file in `[tool.preflight] exclude` if it is a "
    "template",
)


def failure(source: Source, what: str, line: int) -> Hit:
    """The hit for a parser's complaint; called by the engine, which is who parses."""
    return source.hit(source.line_span(line), f"does not parse: {what}")
