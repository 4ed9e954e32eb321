"""Which `compare:` rule holds for a path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from orchestrator.errors import InputError
from orchestrator.spec.compare import CompareRule

EVERYTHING = CompareRule(path="**")
"""What holds where nothing is declared: exact, but for tensors, which have a tolerance a dtype."""


def rule_for(path: str, rules: Sequence[CompareRule]) -> CompareRule:
    """The first rule whose glob fits the path."""
    return next((rule for rule in rules if fits(path, rule.path)), EVERYTHING)


def fits(path: str, glob: str) -> bool:
    """Whether a glob names a path.

    `*` and `?` stay within one part, `**` spans any number of them; a glob without a slash is also
    held against the last part, so that `*.npy` means every such file.

    Raises:
        InputError: it is no glob.
    """
    pattern = _pattern(glob)
    if pattern.fullmatch(path):
        return True
    return "/" not in glob and pattern.fullmatch(path.rsplit("/", 1)[-1]) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    text, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            text, at = text + "(?:[^/]+/)*", at + 3
        elif glob.startswith("**", at):
            text, at = text + ".*", at + 2
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            inner = "^" + inner[1:] if inner[0] == "!" else inner
            text, at = text + f"[{inner}]", end + 1
        else:
            single = {"*": "[^/]*", "?": "[^/]"}.get(glob[at], re.escape(glob[at]))
            text, at = text + single, at + 1
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise InputError(
            f"`{glob}` is no glob: {error}", expected="such as `out/**/*.npy`"
        ) from error
