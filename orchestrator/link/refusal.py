"""An agent that says no, or that is broken, as an error with a way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import EvidenceError, InternalError, OrchError


class Refused(OrchError):
    """The agent will not do what it was asked; `code` says which refusal it is."""

    exit_code = 5

    def __init__(self, code: str, text: str, *, fix: str = "") -> None:
        super().__init__(text, fix=fix)
        self.code = code


class DiskFull(Refused):
    """The host was reached, and has no room for what it was asked."""

    exit_code = EvidenceError.exit_code


class Damaged(Refused):
    """The host was reached, and what it has of the run cannot be bundled."""

    exit_code = EvidenceError.exit_code


def raise_if_refused(name: str, message: Mapping[str, Any]) -> None:
    """Raise what the agent on the host of that name says, unless it is no refusal.

    Raises:
        Refused: it will not do what it was asked.
        InternalError: it is broken; its traceback is in the text.
    """
    if message["type"] == "broken":
        raise InternalError(f"the agent failed: {message['text']}\n{message['traceback']}")
    if message["type"] != "refused":
        return
    code, text = str(message["code"]), str(message["text"])
    if code == "disk_full":
        raise DiskFull(
            code,
            f"the disk of `{name}` is full: {text}",
            fix=f"make room there; `orch gc --host {name}` removes old runs that are home",
        )
    if code == "os":
        raise Refused(
            code,
            f"`{name}` cannot do what it was asked: {text}",
            fix=f"mend that there; `orch doctor {name}` looks at its root",
        )
    if code == "damaged_run":
        fix = f"its files are on `{name}`; a bundle.zip among them may be whole: copy it"
        raise Damaged(code, text, fix=fix)
    fix = f"`orch ls --host {name}` lists the runs there" if code == "no_such_run" else ""
    raise Refused(code, text, fix=fix)
