"""One file as raw bytes, with the map from byte offsets to the lines a person sees."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from preflight.finding import Edit, Fix, Grade, Hit, Related, Span

BOM = b"\xef\xbb\xbf"
_NEWLINE = re.compile(rb"\r\n|\r|\n")


class Source:
    """The bytes of a file and its role. Offsets always count in these raw bytes, BOM included."""

    def __init__(self, path: str, data: bytes, roles: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.data = data
        self.roles = roles
        self.has_bom = data.startswith(BOM)

    @cached_property
    def line_starts(self) -> list[int]:
        """Byte offset of each line's first character; a BOM is not part of line 1."""
        starts = [len(BOM) if self.has_bom else 0]
        starts.extend(match.end() for match in _NEWLINE.finditer(self.data))
        return starts

    @property
    def newline(self) -> str:
        """The line ending this file uses, for text a fix inserts."""
        return "\r\n" if b"\r\n" in self.data else "\n"

    def line_of(self, offset: int) -> int:
        return max(bisect_right(self.line_starts, offset), 1)

    def column_of(self, offset: int) -> int:
        start = self.line_starts[self.line_of(offset) - 1]
        return len(self.data[start:offset].decode("utf-8", "replace")) + 1

    def line_text(self, line: int) -> str:
        """The text of a line without its ending; bytes that are not UTF-8 show as U+FFFD."""
        return self._line_bytes(line).decode("utf-8", "replace")

    def line_end(self, line: int) -> int:
        """Byte offset behind a line's last character, before its ending."""
        return self.line_starts[line - 1] + len(self._line_bytes(line))

    def _line_bytes(self, line: int) -> bytes:
        start = self.line_starts[line - 1]
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.data)
        return self.data[start:end].rstrip(b"\r\n")

    def span(self, start: int, end: int) -> Span:
        end = max(end, start)
        return Span(
            line=self.line_of(start),
            column=self.column_of(start),
            end_line=self.line_of(end),
            end_column=self.column_of(end),
            start_byte=start,
            end_byte=end,
        )

    def line_span(self, line: int) -> Span:
        return self.span(self.line_starts[line - 1], self.line_end(line))

    def hit(
        self,
        span: Span,
        message: str,
        *,
        consequence: str = "",
        help: str = "",
        fix: Fix | None = None,
        related: tuple[Related, ...] = (),
    ) -> Hit:
        return Hit(span, message, consequence, help, fix, related, self.path)

    def related(self, offset: int, message: str) -> Related:
        return Related(self.path, self.line_of(offset), self.column_of(offset), message)


def safe(title: str, *edits: Edit) -> Fix:
    return Fix(Grade.SAFE, title, edits)


def unsafe(title: str, *edits: Edit) -> Fix:
    return Fix(Grade.UNSAFE, title, edits)
