"""Every way `orch` can fail, as one tree.

    OrchError
    ├── InputError            exit 2   the user's files, arguments or working copy
    │   ├── SpecError                  one or more problems in a file, each with its line
    │   └── SourceError                the working copy cannot be snapshotted
    ├── PreflightRefused      exit 4   the linter found errors before the run
    ├── EvidenceError         exit 3   a bundle or run directory cannot be trusted
    ├── HostError             exit 5   the host, or the way to it
    │   ├── Unreachable                no connection, or the link was lost for good
    │   ├── HostKeyUnknown             nobody has vouched for this host yet
    │   ├── HostKeyChanged             known_hosts names another key
    │   ├── AuthenticationFailed       the host answered and refused us
    │   └── ProtocolError              what came back is not our protocol
    └── Cancelled             exit 6   the user stopped the run

    InternalError             exit 70  `orch` itself is broken; never the user's mistake

The exit code of a command is the `exit_code` of the error that ended it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One mistake at one place: what is wrong, what was expected, and the way out.

    `line` and `column` count from 1; 0 means the place inside the file is not known.
    """

    what: str
    expected: str = ""
    fix: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = self.place
        parts = [f"{place}: {self.what}" if place else self.what]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.fix:
            parts.append(f"fix: {self.fix}")
        return "; ".join(parts)

    @property
    def place(self) -> str:
        if not self.file:
            return ""
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column or 1}"


class OrchError(Exception):
    """A failure `orch` understands: it says what happened, what was expected and what to do."""

    exit_code = 1

    def __init__(self, what: str, *, expected: str = "", fix: str = "", detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.fix = fix
        self.detail = detail

    def __str__(self) -> str:
        return str(Problem(self.what, self.expected, self.fix))


class InputError(OrchError):
    """The user's files, arguments or working copy are not usable as they are."""

    exit_code = 2


class SpecError(InputError):
    """A file does not say what it must; carries every problem found in it, not the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return self.what


class SourceError(InputError):
    """The working copy cannot be turned into one exact tree."""


class EvidenceError(OrchError):
    """A bundle or run directory is damaged, incomplete or not what its manifest says."""

    exit_code = 3


class PreflightRefused(OrchError):
    """The linter found errors that would waste the round trip."""

    exit_code = 4


class HostError(OrchError):
    """The host, or the way to it; the run on the host may well go on."""

    exit_code = 5


class Unreachable(HostError):
    """No connection could be made in time, or it was lost and did not come back."""


class HostKeyUnknown(HostError):
    """The host showed a key that no known_hosts file names."""


class HostKeyChanged(HostError):
    """The host showed another key than the one known_hosts names."""


class AuthenticationFailed(HostError):
    """The host answered, and refused every credential we have."""


class ProtocolError(HostError):
    """What came over the link is not the protocol of this version."""


class Cancelled(OrchError):
    """The user stopped the run."""

    exit_code = 6


class InternalError(Exception):
    """A state that cannot happen. A bug in `orch`: report it with the text below it."""

    exit_code = 70
