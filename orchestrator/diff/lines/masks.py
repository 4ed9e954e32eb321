"""What a log says differently in every run: hidden by name, and counted.

The list is a table with a version. A mask hides as little as tells a moment, a process or a place;
what it hid is counted, so that nobody takes a masked text for an equal one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

VERSION = 1

_CLOCK = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_PATH = r"[^\s'\"`:;,)\]>]{1,400}"
_TIME_UNIT = r" ?(?:[nuµμm]?s|secs?|seconds?|m(?:illi|icro)seconds?|mins?|minutes?)(?![\w/])"
_DURATION = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?" + _TIME_UNIT)


class Mask(NamedTuple):
    """One thing to hide. Only lines with one of the `signs` in them are searched for it."""

    name: str
    signs: tuple[str, ...]
    pattern: str


# Applied one after the other. Every repetition is of one class and bounded, or ends where the
# class does: no text makes one of these backtrack for long. Patterns that begin with a digit or a
# letter are found several times faster than those that begin with something optional.
BUILT_IN: tuple[Mask, ...] = (
    Mask(
        "ansi",
        ("\x1b",),
        r"\x1b\[[0-9;?]{0,64}[ -/]?[@-~]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|\x1b[@-_]",
    ),
    Mask("progress", ("%|",), r"\d{1,3}%\|[^|\n]{0,200}\|[^|\n]{0,120}"),
    Mask("progress", ("]",), r"\[[=#>\-. ]{8,200}\][ \t]{0,4}\d{1,3}(?:\.\d+)?[ ]?%"),
    Mask("progress", ("%",), r"\d{1,3}(?:\.\d+)?[ ]?%[ \t]{0,4}\[[=#>\-. ]{8,200}\]"),
    Mask(
        "timestamp",
        ("-", "/"),
        r"\d{4}[-/]\d{2}[-/]\d{2}"
        r"(?:[T _]" + _CLOCK + r"(?:[ ]?(?:Z|UTC|[+-]\d{2}:?\d{2}))?)?",
    ),
    Mask(
        "timestamp",
        (":",),
        _MONTH + r" {1,2}\d{1,2} " + _CLOCK + r"(?: [A-Z]{3,4})?(?: \d{4})?",
    ),
    # glog and torch: level, month and day, clock, thread.
    Mask("timestamp", (":",), r"[VDIWEF]\d{4} " + _CLOCK + r"(?: {1,3}\d+)?"),
    Mask("timestamp", (":",), _CLOCK),
    Mask(
        "uuid",
        ("-",),
        r"(?<![0-9a-fA-F])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9a-fA-F])",
    ),
    Mask("address", ("0x",), r"0x[0-9a-fA-F]{9,16}\b"),
    Mask(
        "pid",
        ("pid", "Pid", "PID", "tid", "TID", "rocess", "hread"),
        r"(?<![A-Za-z])(?:[pP]id|PID|[tT]id|TID|[pP]rocess|[tT]hread)[ :=#]{1,3}\d+",
    ),
    # NCCL: host:pid:thread [device].
    Mask("pid", (" [",), r"(?<=:)\d{2,8}:\d{2,8}(?= \[\d)"),
    Mask(
        "temporary path",
        ("/tmp/", "/shm/", "/var/folders/"),  # noqa: S108 - looked for, not written to
        r"(?:/private)?(?:/var)?/tmp/" + _PATH + r"|/(?:var/folders|dev/shm)/" + _PATH,
    ),
    Mask(
        "temporary path",
        ("\\Temp\\",),
        r"[A-Za-z]:\\[^\s'\"]{0,200}\\Temp\\" + _PATH,
    ),
    Mask(
        "duration",
        ("s", "min"),
        # Only finds that there is one: most lines have none, and `_DURATION` is slow to say so.
        r"\d" + _TIME_UNIT,
    ),
)


@dataclass(frozen=True, slots=True)
class Masked:
    """A line as it is compared, and what was hidden in it: (mask, text) in order."""

    text: str
    hidden: tuple[tuple[str, str], ...] = ()


class Masks:
    """The built-in masks and those of a rule."""

    def __init__(self, own: Sequence[str] = ()) -> None:
        self._own = [(f"rule: {text}", re.compile(text)) for text in own]
        self._built_in = [(m.name, m.signs, re.compile(m.pattern)) for m in BUILT_IN]

    def hide(self, line: str) -> Masked:
        """A line with every match replaced by the mask's name."""
        hidden: list[tuple[str, str]] = []
        line = _last_overwritten(line, hidden)
        for name, pattern in self._own:
            line = pattern.sub(_keeper(name, hidden), line)
        if _MAY_MATCH.search(line):
            for name, signs, pattern in self._built_in:
                if _has_one(line, signs) and pattern.search(line):
                    whole = _DURATION if name == "duration" else pattern
                    line = whole.sub(_keeper(name, hidden), line)
        return Masked(line.rstrip() if hidden else line, tuple(hidden))


# Everything that a built-in mask hides has one of these in it.
_MAY_MATCH = re.compile(r"[\d\x1b]|/tmp/|/shm/|/var/folders/|\\Temp\\")


def count_hidden(a: Masked, b: Masked) -> Counter[str]:
    """How often each mask hid a difference between two lines that are equal behind it."""
    counts: Counter[str] = Counter()
    for name in dict.fromkeys(name for name, _ in (*a.hidden, *b.hidden)):
        one = [text for mask, text in a.hidden if mask == name]
        two = [text for mask, text in b.hidden if mask == name]
        differing = sum(x != y for x, y in zip_longest(one, two))
        if differing:
            counts[name] = differing
    return counts


def _last_overwritten(line: str, hidden: list[tuple[str, str]]) -> str:
    """What a terminal shows of a line that was written over with carriage returns."""
    if "\r" not in line:
        return line
    if line.endswith("\r"):
        hidden.append(("line end", "\\r"))
    *gone, last = line.rstrip("\r").split("\r")
    if gone:
        hidden.append(("progress", "\r".join(gone)))
    return last


def _has_one(line: str, signs: Sequence[str]) -> bool:
    # A plain loop: this is asked a dozen times of every line, and a generator costs more.
    for sign in signs:  # noqa: SIM110
        if sign in line:
            return True
    return False


def _keeper(name: str, hidden: list[tuple[str, str]]) -> Callable[[re.Match[str]], str]:
    shown = "" if name == "ansi" else f"<{name}>"

    def replace(match: re.Match[str]) -> str:
        hidden.append((name, match[0]))
        return shown

    return replace
