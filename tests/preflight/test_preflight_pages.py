"""Each rule's page is its test: flagged, left alone, fixed, known gaps."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_pages import (
    PAGES,
    SECTIONS,
    blocks_of,
    cases_of,
    fixed,
    lint,
    page_of,
    places,
    sections_of,
)

from preflight.finding import Grade
from preflight.rule import CHECKERS, RegisteredRule, registry

RULES = list(registry())
EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.card.name)


@EVERY_RULE
def test_page_flags_what_it_says(rule: RegisteredRule, tmp_path: Path) -> None:
    name = rule.card.name
    cases = cases_of(page_of(name), "Flagged")
    total = 0
    for index, case in enumerate(cases):
        folder = tmp_path / str(index)
        folder.mkdir()

        found = places(lint(case, name, folder))

        assert found == case.expected(name), f"{name}, {case.name}"
        total += len(found)
    assert total >= 2, "a page needs two flagged examples"


@EVERY_RULE
def test_page_leaves_alone_what_it_says(rule: RegisteredRule, tmp_path: Path) -> None:
    name = rule.card.name
    cases = cases_of(page_of(name), "Not flagged")
    for index, case in enumerate(cases):
        folder = tmp_path / str(index)
        folder.mkdir()

        assert lint(case, name, folder) == [], case.name
    assert len(cases) >= 2, "a page needs two examples that are not flagged"


@EVERY_RULE
def test_page_fix_does_what_it_says(rule: RegisteredRule, tmp_path: Path) -> None:
    """An applied fix gives the `after` block byte for byte; advice has to silence the rule."""
    name = rule.card.name
    before = [c for c in cases_of(page_of(name), "Fix") if "before" in c.blocks[0].options]
    after = [c for c in cases_of(page_of(name), "Fix") if "after" in c.blocks[0].options]
    assert before
    assert len(before) == len(after)
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        (tmp_path / f"{index}old").mkdir()
        (tmp_path / f"{index}new").mkdir()

        findings = lint(old, name, tmp_path / f"{index}old")

        assert findings, f"{name}, {old.name}: the `before` block is not flagged"
        assert lint(new, name, tmp_path / f"{index}new") == [], f"{name}, {new.name}"
        if rule.card.fix in (Grade.SAFE, Grade.UNSAFE) and "advice" not in old.blocks[0].options:
            assert fixed(old.blocks[0], findings) == new.blocks[0].data


@EVERY_RULE
def test_page_names_gaps_that_are_still_open(rule: RegisteredRule, tmp_path: Path) -> None:
    name = rule.card.name
    for index, case in enumerate(cases_of(page_of(name), "Known gaps")):
        folder = tmp_path / str(index)
        folder.mkdir()
        wished = {(b.path, n) for b in case.blocks for n in b.marked(name, "todo-error")}
        assert wished, f"{name}, {case.name}: a gap needs a `todo-error` mark"

        assert not wished & places(lint(case, name, folder)), "the gap is closed: move the example"


@EVERY_RULE
def test_page_fails_without_the_rule(
    rule: RegisteredRule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = rule.card.name
    for part in (*CHECKERS, "check_suppression"):
        if hasattr(rule.module, part):
            monkeypatch.setattr(rule.module, part, lambda *_: ())
    if name == "unparsed-file":
        monkeypatch.setattr("preflight.checking._unparsed_hits", lambda *_: ())
    for index, case in enumerate(cases_of(page_of(name), "Flagged")):
        folder = tmp_path / str(index)
        folder.mkdir()

        assert places(lint(case, name, folder)) != case.expected(name) or not case.expected(name)


@EVERY_RULE
def test_page_is_complete(rule: RegisteredRule) -> None:
    card = rule.card
    page = page_of(card.name)
    text = page.read_text("utf-8")

    assert sections_of(page) == list(SECTIONS)
    assert text.startswith(f"# {card.name} ({card.code})\n\n{card.title}.\n")
    fix = card.fix.value if card.fix else "none"
    numbers = ", ".join(f"[{n}](../pitfalls.md#pitfall-{n})" for n in card.pitfalls) or "none"
    assert f"| {card.severity.word} | {card.profile.word} | {fix} | {numbers} |" in text


def test_every_page_belongs_to_a_rule() -> None:
    stems = {page.stem for page in PAGES.glob("*.md")} - {"precision"}

    assert stems == {rule.card.name for rule in RULES}


def test_every_block_says_its_language() -> None:
    blocks = [(page.name, b.language) for page in PAGES.glob("*.md") for b in blocks_of(page)]

    known = {"python", "cuda", "yaml", "bash", "text", "toml", "gitattributes", "console"}
    assert [block for block in blocks if block[1] not in known] == []
