from __future__ import annotations

import re
from pathlib import Path

import pytest

from preflight.catalogue import PRACTICES, STATIC_CHECKS, Lesson, page, pitfalls
from preflight.guard import GUARDS
from preflight.rule import registry
from preflight.schedule_command import CHECKS

ROOT = Path(__file__).resolve().parents[2]
LESSONS = (*pitfalls(), *PRACTICES, *STATIC_CHECKS)


def test_page_is_what_the_catalogue_says() -> None:
    assert (ROOT / "docs" / "pitfalls.md").read_text("utf-8") == page()


def test_all_ten_pitfalls_are_there() -> None:
    assert [lesson.number for lesson in pitfalls()] == list(range(1, 11))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.title)
def test_no_row_is_empty_and_everything_in_it_exists(lesson: Lesson) -> None:
    assert lesson.holders
    assert all(name in registry() for name in lesson.rules)
    assert all(name in GUARDS for name in lesson.guards)
    assert all(name in CHECKS for name in lesson.checks)
    assert all((ROOT / path).exists() for _, path in lesson.features)


PAGES = [
    ROOT / "docs" / "pitfalls.md",
    ROOT / "docs" / "preflight.md",
    *sorted((ROOT / "docs" / "rules").glob("*.md")),
]


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", file.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
        if "://" not in target:
            assert (file.parent / target).exists(), target
