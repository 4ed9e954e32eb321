"""Three invisible bytes before the first character."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import BOM, Source, safe

RULE = Rule(
    name="byte-order-mark",
    code="TXT003",
    title="A file begins with a byte order mark",
    severity=Severity.WARNING,
    profile=Profile.REGULAR,
    consequence="a shebang is not recognised, a shell reads the mark as part of the first "
    "command, and some compilers stop",
    help="save the file as UTF-8 without BOM (`--fix`)",
    needs=(BOM,),
    fix=Grade.SAFE,
)


def check_text(source: Source, config: Config) -> Iterator[Hit]:
    if source.has_bom:
        yield source.hit(
            source.span(0, len(BOM)),
            "the file begins with a UTF-8 byte order mark",
            fix=safe("remove the mark", Edit(0, len(BOM), "")),
        )
