"""What a rule found, as data: reporters, cache and fixer read these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class Severity(IntEnum):
    """`error` blocks a commit and `orch run`; `warning` blocks with `--strict`; `info` never."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class Profile(IntEnum):
    """How many false alarms the reader accepts; independent of severity."""

    REGULAR = 0
    PEDANTIC = 1
    AUDITOR = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class Grade(Enum):
    """Who may apply a fix: `--fix` (safe), `--unsafe-fixes`, or only the reader (display)."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


@dataclass(frozen=True)
class Span:
    """A place in a file. Lines and columns count from 1, columns in characters; `end` is exclusive.

    `start_byte` and `end_byte` are offsets into the raw bytes of the file.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    start_byte: int
    end_byte: int


@dataclass(frozen=True)
class Edit:
    """Replace the raw bytes `[start_byte, end_byte)` by `text`."""

    start_byte: int
    end_byte: int
    text: str


@dataclass(frozen=True)
class Fix:
    """One change that removes the finding; display-only fixes carry words and no edits."""

    grade: Grade
    title: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Related:
    """Another place that belongs to the story of a finding."""

    path: str
    line: int
    column: int
    message: str


@dataclass(frozen=True)
class Hit:
    """What a rule yields: the place and the words that are its own.

    Empty `consequence` and `help` mean the rule's standard sentences; `path` is set only by rules
    that look at several files at once.
    """

    span: Span
    message: str
    consequence: str = ""
    help: str = ""
    fix: Fix | None = None
    related: tuple[Related, ...] = ()
    path: str = ""


@dataclass(frozen=True)
class Finding:
    """A hit bound to its rule and file; `id` is stable while the flagged line keeps its text."""

    id: str
    rule: str
    code: str
    path: str
    span: Span
    severity: Severity
    profile: Profile
    message: str
    consequence: str
    help: str
    fix: Fix | None = None
    related: tuple[Related, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.path}:{self.span.line}:{self.span.column}"
