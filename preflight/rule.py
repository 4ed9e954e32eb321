"""A rule's identity card, and the registry that finds rules by name, code or old name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from preflight.finding import Grade, Profile, Severity

CHECKERS = ("check_python", "check_cuda", "check_yaml", "check_text", "check_project")


@dataclass(frozen=True)
class Rule:
    """Who a rule is. The name is the identity; the code is an alias for short places.

    `needs` gates the rule: a file that holds none of these byte strings is never parsed for it.
    `consequence` and `help` are the standard endings of every message: what happens if nothing is
    done, and the next action.
    """

    name: str
    code: str
    title: str
    severity: Severity
    profile: Profile
    consequence: str
    help: str
    needs: tuple[bytes, ...] = ()
    fix: Grade | None = None
    pitfalls: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    preview: bool = False

    @property
    def group(self) -> str:
        return self.code.rstrip("0123456789")

    @property
    def docs(self) -> str:
        return f"docs/rules/{self.name}.md"

    def wants(self, data: bytes) -> bool:
        return not self.needs or any(word in data for word in self.needs)


@dataclass(frozen=True)
class RegisteredRule:
    """A rule card with the module that checks it; the module has one function per language."""

    card: Rule
    module: ModuleType

    def checker(self, kind: str) -> Any:
        return getattr(self.module, kind, None)


class Registry:
    """All rules of this version, in catalogue order."""

    def __init__(self, rules: Iterable[RegisteredRule]) -> None:
        self._rules = {rule.card.name: rule for rule in rules}
        self._alias = {rule.card.code: rule.card.name for rule in self._rules.values()}
        for rule in self._rules.values():
            self._alias.update((old, rule.card.name) for old in rule.card.aliases)

    def __iter__(self) -> Iterator[RegisteredRule]:
        return iter(self._rules.values())

    def __getitem__(self, name: str) -> RegisteredRule:
        return self._rules[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rules

    def canonical(self, word: str) -> str | None:
        """The rule's name for a name, code or retired name; None for an unknown word."""
        return word if word in self._rules else self._alias.get(word)

    def expand(self, word: str) -> frozenset[str] | None:
        """Rule names a selector stands for: a name, a code, a group such as `SYN`, or `ALL`."""
        if word == "ALL":
            return frozenset(self._rules)
        name = self.canonical(word)
        if name:
            return frozenset((name,))
        group = frozenset(r.card.name for r in self if r.card.group == word)
        return group or None

    def nearest(self, word: str) -> str | None:
        known = [*self._rules, *self._alias]
        found = difflib.get_close_matches(word, known, 1, 0.6)
        return self.canonical(found[0]) if found else None


_LOADED: list[Registry] = []


def registry() -> Registry:
    """The rules of this version, imported once."""
    if not _LOADED:
        from preflight.rules import MODULES

        modules = (import_module(f"preflight.rules.{name}") for name in MODULES)
        _LOADED.append(Registry(RegisteredRule(module.RULE, module) for module in modules))
    return _LOADED[0]
