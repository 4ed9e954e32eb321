"""`preflight rules` lists the catalogue; `page` finds the page of one rule for `--explain`."""

from __future__ import annotations

import sys
from pathlib import Path

from preflight.config import ConfigError
from preflight.rule import Rule, registry


def main(argv: list[str]) -> int:
    if argv:
        sys.stdout.write("usage: preflight rules\n\nList every rule with severity and profile.\n")
        return 0 if argv[0] in ("-h", "--help") else 2
    cards = [rule.card for rule in registry()]
    width = max(len(card.name) for card in cards)
    for card in cards:
        fix = card.fix.value if card.fix else "-"
        sys.stdout.write(
            f"{card.code}  {card.name:{width}}  {card.severity.word:7}  {card.profile.word:8}  "
            f"{fix:7}  {card.title}\n"
        )
    return 0


def page(word: str) -> str:
    """The Markdown page of a rule; its card where the pages are not installed."""
    rules = registry()
    name = rules.canonical(word)
    if name is None:
        near = rules.nearest(word)
        hint = f"did you mean `{near}`?" if near else "run `preflight rules` for the list"
        raise ConfigError(f"there is no rule `{word}`; {hint}")
    for folder in _page_folders():
        file = folder / f"{name}.md"
        if file.is_file():
            return file.read_text("utf-8")
    return card_text(rules[name].card)


def card_text(card: Rule) -> str:
    return (
        f"# {card.name} ({card.code})\n\n{card.title}.\n\n"
        f"severity: {card.severity.word}, profile: {card.profile.word}\n\n"
        f"why:  {card.consequence}\nhelp: {card.help}\n"
    )


def _page_folders() -> tuple[Path, ...]:
    package = Path(__file__).resolve().parent
    return package.parent / "docs" / "rules", Path(sys.prefix, "share", "preflight", "rules")
