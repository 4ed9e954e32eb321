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

VERSION = 1

_CLOCK = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"

# Tried in this order at every place of a line. Every repetition is of one class and bounded, or
# ends where the class does: no text makes one of these backtrack for long.
BUILT_IN: tuple[tuple[str, str], ...] = (
    ("ansi", r"\x1b\[[0-9;?]{0,64}[ -/]?[@-~]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|\x1b[@-_]"),
    (
        "progress",
        r"\d{1,3}%\|[^|\n]{0,200}\|[^|\n]{0,120}"
        r"|\[[=#>\-. ]{8,200}\][ \t]{0,4}\d{1,3}(?:\.\d+)?[ ]?%"
        r"|\d{1,3}(?:\.\d+)?[ ]?%[ \t]{0,4}\[[=#>\-. ]{8,200}\]",
    ),
    (
        "timestamp",
        r"\d{4}[-/]\d{2}[-/]\d{2}(?:[T _]" + _CLOCK + r"(?:[ ]?(?:Z|UTC|[+-]\d{2}:?\d{2}))?)?"
        r"|(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?" + _MONTH + r" {1,2}\d{1,2} " + _CLOCK +
        r"(?: [A-Z]{3,4})?(?: \d{4})?"
        # glog and torch: level, month and day, clock, thread.
        r"|\b[VDIWEF]\d{4} " + _CLOCK + r"(?: {1,3}\d+)?"
        r"|" + _CLOCK,
    ),
    ("uuid", r"(?:GPU-|MIG-)?\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"),
    ("address", r"\b0x[0-9a-fA-F]{9,16}\b"),
    (
        "pid",
        r"(?<![A-Za-z])(?:pid|PID|Pid|tid|TID|process|Process|thread|Thread)[ :=#]{1,3}\d+"
        # NCCL: host:pid:thread [device].
        r"|(?<=:)\d{2,8}:\d{2,8}(?= \[\d)",
    ),
    (
        "temporary path",
        r"(?:/private)?(?:/var)?/tmp/[^\s'\"`:;,)\]>]{1,400}"
        r"|/var/folders/[^\s'\"`:;,)\]>]{1,400}|/dev/shm/[^\s'\"`:;,)\]>]{1,400}"
        r"|[A-Za-z]:\\[^\s'\"]{0,200}\\Temp\\[^\s'\"]{1,400}",
    ),
    (
        "duration",
        r"(?<![\w.])" + _NUMBER + r"[ ]?"
        r"(?:ns|us|µs|μs|ms|s|sec|secs|seconds?|milliseconds?|microseconds?|min|mins|minutes?)"
        r"(?![\w/])",
    ),
)


@dataclass(frozen=True)
class Masked:
    """A line as it is compared, and what was hidden in it: (mask, text) in order."""

    text: str
    hidden: tuple[tuple[str, str], ...] = ()


class Masks:
    """The built-in masks and those of a rule, as one pattern."""

    def __init__(self, own: Sequence[str] = ()) -> None:
        self._own = [(f"rule: {text}", re.compile(text)) for text in own]
        self._names = [name for name, _ in BUILT_IN]
        self._built_in = re.compile(
            "|".join(f"(?P<m{n}>{text})" for n, (_, text) in enumerate(BUILT_IN))
        )

    def hide(self, line: str) -> Masked:
        """A line with every match replaced by the mask's name."""
        hidden: list[tuple[str, str]] = []
        line = _last_overwritten(line, hidden)
        for name, pattern in self._own:
            line = pattern.sub(_keeper(name, hidden), line)
        if "\x1b" in line or _MAY_MATCH.search(line):
            line = self._built_in.sub(lambda match: self._replace(match, hidden), line)
        return Masked(line.rstrip() if hidden else line, tuple(hidden))

    def _replace(self, match: re.Match[str], hidden: list[tuple[str, str]]) -> str:
        assert match.lastgroup is not None
        name = self._names[int(match.lastgroup[1:])]
        hidden.append((name, match[0]))
        return "" if name == "ansi" else f"<{name}>"


# Everything but escapes that a built-in mask hides has a digit or a temporary directory in it.
_MAY_MATCH = re.compile(r"\d|tmp/|/shm/|folders/|Temp\\")


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


def _keeper(name: str, hidden: list[tuple[str, str]]) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        hidden.append((name, match[0]))
        return "<masked>"

    return replace

