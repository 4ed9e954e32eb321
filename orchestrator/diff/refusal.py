"""Why a pair could not be compared: its content is broken, or it would cost too much."""

from __future__ import annotations


class Unreadable(Exception):
    """The content is not what its type promises; the text says what is wrong with it."""


class Skipped(Exception):
    """The pair was not compared: too large, too slow, a package is missing; the text says which."""


def needs(package: str) -> Skipped:
    """A reader's package is not installed."""
    return Skipped(f"`{package}` is not installed: pip install 'gpu-orch[diff]'")
