"""Where the comments of a file are: the only places a suppression may stand."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from preflight.source import Source

# What may hide a comment mark comes first: raw strings, strings, characters.
_C_TOKEN = re.compile(
    rb'R"(?P<d>[^()\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    rb"|(?P<line>//[^\r\n]*)|(?P<block>/\*.*?\*/)",
    re.DOTALL,
)
_HASH_TOKEN = re.compile(
    rb"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|(?P<comment>(?:(?<=\s)|^)\#[^\r\n]*)", re.MULTILINE
)


@dataclass(frozen=True)
class Comment:
    """One comment line without its mark. `own_line` means nothing but blanks stands before it."""

    line: int
    offset: int
    text: str
    own_line: bool


def comments(source: Source, language: str) -> list[Comment]:
    """All comments in order; a Python file that does not tokenize has those before the error."""
    if language == "python":
        return list(_python_comments(source))
    if language == "cuda":
        return list(_c_comments(source))
    return list(_hash_comments(source))


def _comment(source: Source, offset: int, text: str) -> Comment:
    line = source.line_of(offset)
    before = source.data[source.line_starts[line - 1] : offset]
    return Comment(line, offset, text, not before.strip())


def _python_comments(source: Source) -> Iterator[Comment]:
    text = source.data.decode("utf-8-sig", "replace")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                width = len(token.line[:column].encode("utf-8"))
                offset = source.line_starts[row - 1] + width
                yield _comment(source, offset, token.string.lstrip("#"))
    except (tokenize.TokenError, SyntaxError, IndexError):
        return


def _c_comments(source: Source) -> Iterator[Comment]:
    for match in _C_TOKEN.finditer(source.data):
        if match.group("line") is not None:
            text = match.group("line")[2:]
        elif match.group("block") is not None:
            text = match.group("block")[2:-2]
        else:
            continue
        yield _comment(source, match.start(), text.decode("utf-8", "replace"))


def _hash_comments(source: Source) -> Iterator[Comment]:
    for match in _HASH_TOKEN.finditer(source.data):
        raw = match.group("comment")
        if raw is not None:
            yield _comment(
                source, match.start("comment"), raw.lstrip(b"#").decode("utf-8", "replace")
            )
