"""Numbers that compilers give out as they like, replaced by the order of first appearance."""

from __future__ import annotations

import re


class Renumber:
    """Renames what a pattern finds; group 1 is the kind, and each kind counts from 0."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, line: str) -> str:
        return self._pattern.sub(self._rename, line)

    def _rename(self, match: re.Match[str]) -> str:
        name = match[0]
        if name not in self._names:
            kind = match[1]
            number = self._counts.get(kind, 0)
            self._counts[kind] = number + 1
            self._names[name] = f"{kind}{number}"
        return self._names[name]
