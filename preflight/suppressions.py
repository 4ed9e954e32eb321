"""Suppressions: `preflight: ignore[rule, rule] until=2027-01-31 -- reason` in any comment style.

A trailing comment covers its physical line; behind the last bracket of a Python statement, the
whole statement. A comment on its own line covers the next statement: a
logical line of Python, a node of YAML, a statement of C++. `file-ignore[...]` before the first
statement covers the file. There is no form without rule names and none without a reason; a comment
that begins like a suppression and does not follow the grammar is a finding, never a blanket.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from datetime import date

from preflight.source import Source
from preflight.syntax.comments import Comment, comments

MARK = b"preflight:"
_LAYOUT = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)
_BEGIN = re.compile(r"^\s*preflight:\s*(?=\S)")
_GRAMMAR = re.compile(
    r"^\s*preflight:\s*(?P<kind>file-ignore|ignore)\[(?P<rules>[^\]]*)\]"
    r"(?:\s+until=(?P<until>\d{4}-\d{2}-\d{2}))?\s*(?:--\s*(?P<reason>.*\S)?\s*)?$"
)


@dataclass(frozen=True)
class Suppression:
    """One suppression comment. `first` and `last` are the lines it covers (both included).

    `rules` holds the words as written. `problem` is what is wrong with the grammar, or "".
    `[cut_start, cut_end)` are the bytes to delete to remove it, `[list_start, list_end)` those
    between its brackets.
    """

    line: int
    column: int
    start_byte: int
    end_byte: int
    rules: tuple[str, ...]
    reason: str
    until: str
    first: int
    last: int
    own_line: bool
    problem: str = ""
    whole_file: bool = False
    cut_start: int = 0
    cut_end: int = 0
    list_start: int = 0
    list_end: int = 0

    def covers(self, line: int) -> bool:
        return self.whole_file or self.first <= line <= self.last

    def expired(self, today: date) -> bool:
        return bool(self.until) and date.fromisoformat(self.until) < today


def read_suppressions(source: Source, language: str) -> list[Suppression]:
    """Every suppression of a file, malformed ones included."""
    if MARK not in source.data:
        return []
    found = comments(source, language)
    by_line = {comment.line: comment for comment in found if comment.own_line}
    return [
        _parse(source, comment, by_line, language)
        for comment in found
        if _BEGIN.match(comment.text)
    ]


def _parse(
    source: Source, comment: Comment, by_line: dict[int, Comment], language: str
) -> Suppression:
    text, last_line = _joined(comment, by_line)
    match = _GRAMMAR.match(text)
    end = source.line_end(comment.line)
    rules: tuple[str, ...] = ()
    reason = until = problem = ""
    whole_file = False
    if match is None:
        problem = _problem(comment.text)
    else:
        rules = tuple(word.strip() for word in match["rules"].split(",") if word.strip())
        reason, until = match["reason"] or "", match["until"] or ""
        whole_file = match["kind"] == "file-ignore"
        if not rules:
            problem = "it names no rule"
        elif until and not _is_date(until):
            problem = f"`{until}` is not a date"
    first, last = comment.line, comment.line
    if comment.own_line and not whole_file:
        first, last = covered_lines(source, last_line, language)
    elif language == "python":
        first = _statement_start(source, comment.line)
    return Suppression(
        line=comment.line,
        column=source.column_of(comment.offset),
        start_byte=comment.offset,
        end_byte=end,
        rules=rules,
        reason=reason,
        until=until,
        first=first,
        last=last,
        own_line=comment.own_line,
        problem=problem,
        whole_file=whole_file and not problem,
        **_edit_places(source, comment, last_line, end),
    )


def _edit_places(source: Source, comment: Comment, last_line: int, end: int) -> dict[str, int]:
    """Where to cut: whole lines of an own-line comment, else from the end of the code."""
    starts = source.line_starts
    if comment.own_line:
        cut_start = starts[comment.line - 1]
        cut_end = starts[last_line] if last_line < len(starts) else len(source.data)
    else:
        code = source.data[starts[comment.line - 1] : comment.offset].rstrip()
        cut_start, cut_end = starts[comment.line - 1] + len(code), end
    opening = source.data.find(b"[", comment.offset, end)
    closing = source.data.find(b"]", comment.offset, end)
    places = {"cut_start": cut_start, "cut_end": cut_end}
    return places | {"list_start": opening + 1, "list_end": max(closing, opening + 1)}


def _joined(comment: Comment, by_line: dict[int, Comment]) -> tuple[str, int]:
    """The comment with the reason's continuation lines, and the last line it stands on."""
    text, line = comment.text, comment.line
    if not comment.own_line or "--" not in text:
        return text, line
    while (following := by_line.get(line + 1)) and not _BEGIN.match(following.text):
        text = f"{text.rstrip()} {following.text.strip()}"
        line += 1
    return text, line


def _problem(text: str) -> str:
    if "[" not in text:
        return "it names no rule in brackets"
    if "--" not in text and re.search(r"\]\s*\S", text):
        return "the words after the bracket are no `until=YYYY-MM-DD` and no `-- reason`"
    return "it does not follow `ignore[rule, ...] until=YYYY-MM-DD -- reason`"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def covered_lines(source: Source, comment_line: int, language: str) -> tuple[int, int]:
    """First and last line of the statement that follows a comment on its own line."""
    first = comment_line + 1
    total = len(source.line_starts)
    mark = "//" if language == "cuda" else "#"
    while first <= total:
        line = source.line_text(first).strip()
        if line and not line.startswith(mark):
            break
        first += 1
    if first > total:
        return comment_line, comment_line
    if language == "python":
        return first, _python_statement_end(source, first)
    if language == "cuda":
        return first, _c_statement_end(source, first)
    if language == "yaml":
        return first, _yaml_node_end(source, first)
    last = first
    while last < total and source.line_text(last).rstrip().endswith("\\"):
        last += 1
    return first, last


def _statement_start(source: Source, last: int) -> int:
    """First line of the logical line that ends on `last`; `last` itself when none does.

    A formatter that breaks a long statement leaves the trailing comment behind its last bracket.
    """
    text = source.data.decode("utf-8-sig", "replace")
    start = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NEWLINE:
                if token.start[0] == last:
                    return start or last
                start = 0
            elif not start and token.type not in _LAYOUT:
                start = token.start[0]
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return last
    return last


def _python_statement_end(source: Source, first: int) -> int:
    """End of the logical line; a decorator covers the `def` line it decorates as well."""
    text = source.data[source.line_starts[first - 1] :].decode("utf-8", "replace")
    decorated = False
    try:
        for token in tokenize.generate_tokens(io.StringIO(text.lstrip(" \t")).readline):
            if token.type == tokenize.OP and token.string == "@" and token.start[1] == 0:
                decorated = True
            elif token.type == tokenize.NEWLINE:
                if not decorated:
                    return first + token.start[0] - 1
                decorated = False
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return first
    return first


def _c_statement_end(source: Source, first: int) -> int:
    start = source.line_starts[first - 1]
    depth = 0
    for index in range(start, len(source.data)):
        byte = source.data[index]
        if byte in b"([":
            depth += 1
        elif byte in b")]":
            depth -= 1
        elif byte in b";{" and depth <= 0:
            return source.line_of(index)
    return first


def _yaml_node_end(source: Source, first: int) -> int:
    """The key's line and every deeper indented or blank line after it."""
    head = source.line_text(first)
    indent = len(head) - len(head.lstrip())
    last = first
    for line in range(first + 1, len(source.line_starts) + 1):
        text = source.line_text(line)
        if text.strip() and len(text) - len(text.lstrip()) <= indent:
            break
        if text.strip():
            last = line
    return last
