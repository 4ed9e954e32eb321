"""CR bytes in files that run on Linux: pitfall 9."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.config import Config
from preflight.finding import Edit, Grade, Hit, Profile, Severity
from preflight.rule import Rule
from preflight.source import Source, safe

RULE = Rule(
    name="carriage-return",
    code="TXT001",
    title="A file that runs on the host has CRLF line endings",
    severity=Severity.ERROR,
    profile=Profile.REGULAR,
    consequence=r"on Linux the interpreter's name or a command ends in an invisible `\r` ('not "
    r"found' on the first line), "
    "and the file's hash differs from the one git stores",
    help="convert to LF (`--fix`), and add `* text eol=lf` for these files to .gitattributes",
    needs=(b"\r",),
    fix=Grade.SAFE,
    pitfalls=(9,),
)


def check_text(source: Source, config: Config) -> Iterator[Hit]:
    """One hit a file, at its first CR. A lone CR inside a line is data, not a line ending."""
    if b"\0" in source.data:
        return
    endings = source.data.count(b"\r\n")
    if not endings:
        return
    first = source.data.index(b"\r\n")
    line = source.line_of(first)
    total = source.data.count(b"\n")
    edits = tuple(
        Edit(match.start(), match.end(), "") for match in re.finditer(rb"\r+(?=\n)", source.data)
    )
    yield source.hit(
        source.line_span(line),
        f"the working tree's copy has CRLF on {endings} of {total} lines",
        fix=safe("convert to LF", *edits),
    )
