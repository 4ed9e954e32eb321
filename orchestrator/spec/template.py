"""`{name}` in a command: replaced by the point's value, quoted for the shell that reads it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from orchestrator.spec.words import show_scalar

# `${name}` belongs to the shell and `{{name}}` is the way to write a literal `{name}`.
_PLACEHOLDER = re.compile(r"(?<!\$)\{\{([a-z][a-z0-9_]*)\}\}|(?<![\${])\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True)
class Hole:
    """One placeholder: its name, where it stands, and the quotes around it (`'`, `"` or none)."""

    name: str
    start: int
    end: int
    quote: str


def holes(text: str) -> tuple[Hole, ...]:
    """The placeholders of a shell script, with the quoting each one stands in."""
    matches = [match for match in _PLACEHOLDER.finditer(text) if match[2]]
    quotes = _quotes_at(text, [match.start() for match in matches])
    return tuple(
        Hole(match[2], match.start(), match.end(), quote)
        for match, quote in zip(matches, quotes, strict=True)
    )


def names(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """Every name a command uses, in order, each once."""
    parts = (command,) if isinstance(command, str) else command
    return tuple(dict.fromkeys(hole.name for part in parts for hole in holes(part)))


def unsafe_hole(text: str, point: Mapping[str, Any]) -> Hole | None:
    """A placeholder inside quotes whose value would need quotes of its own."""
    for hole in _quoted(text):
        value = show_scalar(point[hole.name])
        if shlex.quote(value) != value:
            return hole
    return None


@lru_cache(maxsize=1)
def _quoted(text: str) -> tuple[Hole, ...]:
    """The first placeholder of each name that stands in quotes; asked for at every point."""
    first: dict[str, Hole] = {}
    for hole in holes(text):
        if hole.quote:
            first.setdefault(hole.name, hole)
    return tuple(first.values())


def fill(command: str | tuple[str, ...], point: Mapping[str, Any]) -> str | list[str]:
    """The command of one point: a script with quoted values, or an argument list with plain ones.

    Raises:
        KeyError: the command uses a name that the point lacks.
    """
    if isinstance(command, str):
        return _replace(command, {k: shlex.quote(show_scalar(v)) for k, v in point.items()})
    return [_replace(part, {k: show_scalar(v) for k, v in point.items()}) for part in command]


def _replace(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return "{" + match[1] + "}" if match[1] else values[match[2]]

    return _PLACEHOLDER.sub(value, text)


def _quotes_at(text: str, positions: Sequence[int]) -> Iterator[str]:
    """The quote character that is open at each position of a bash script, or an empty string."""
    quote = ""
    index = 0
    for position in positions:
        while index < position:
            char = text[index]
            if char == "\\" and quote != "'":
                index += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char == "#" and (index == 0 or text[index - 1] in " \t\n;"):
                newline = text.find("\n", index)
                index = len(text) if newline < 0 else newline
            index += 1
        yield quote
