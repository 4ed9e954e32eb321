"""The report as a file: complete, offline, and harmless whatever a run said."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.browser import visit
from tests.conftest import Project

MAX_REPORT_BYTES = 2 << 20
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


class Outline(HTMLParser):
    """Tags, ids and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
            if name in ("src", "href", "action", "xlink:href"):
                self.addresses.append(value or "")


def report_of(project: Project, *options: str) -> str:
    target = project.path / "report.out"
    done = project.orch("report", "latest", "-o", str(target), *options)
    assert done.code == 0, done.text
    return target.read_text("utf-8")


def test_a_hostile_run_stays_text(project: Project, hostile: Path) -> None:
    text = report_of(project)
    page = Outline(text)
    assert len(text.encode()) < MAX_REPORT_BYTES
    assert page.tags.count("script") == 2, "ours, and the data"
    assert "img" not in page.tags
    assert page.handlers == []
    assert [a for a in page.addresses if not a.startswith("#")] == []
    assert CONTROL.search(text) is None
    assert "%3Cimg%20src=x%3E.txt" in text, "the file of that name is listed"
    assert "it&#39;s &amp;lt;b.txt" in text, "and so is this one"
    assert "&lt;script&gt;document.title" in text


def test_sections_stand_in_the_order_people_ask(project: Project, hostile: Path) -> None:
    ids = Outline(report_of(project)).ids
    sections = [name for name in ids if name in SECTIONS]
    assert sections == list(SECTIONS)


SECTIONS = ("verdict", "ledger", "conditions", "sweeps", "timeline", "steps", "artifacts", "raw")


def test_every_view_says_what_to_do_next(project: Project, hostile: Path) -> None:
    text = report_of(project)
    run_id = hostile.name
    assert f"orch logs {run_id} &#39;fails&#39;" in text
    assert "mend the step" in text or "write what you learned" in text or "read the log" in text
    assert "**Next:**" in report_of(project, "--md")


def test_markdown_cannot_be_broken_out_of(project: Project, hostile: Path) -> None:
    text = report_of(project, "--md")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert widths <= {4, 7}, "the cells of the ledger and of the conditions, none more"
    assert CONTROL.search(text) is None
    assert not re.search(r"(?<!\\)<(script|img)", text)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_reads_well_from_disk_without_a_network(
    project: Project, hostile: Path, width: int, dark: bool
) -> None:
    target = project.path / "report.html"
    assert project.orch("report", "latest", "-o", str(target)).code == 0
    with visit(target.as_uri(), width=width, dark=dark, offline=True) as seen:
        assert seen.messages == []
        assert [url for url in seen.requests if not url.startswith("file:")] == []
        assert seen.page.title() != "taken"
        assert not seen.is_wider_than_the_window
        assert seen.overlaps() == []
        assert seen.accessibility_problems() == []


def test_the_ledger_can_be_filtered_by_keyboard(project: Project, hostile: Path) -> None:
    target = project.path / "report.html"
    assert project.orch("report", "latest", "-o", str(target)).code == 0
    with visit(target.as_uri(), offline=True) as seen:
        rows = seen.page.locator("#ledger-table tbody tr:visible")
        everything = 2 + 6  # entries, and what six jobs said they could not measure
        assert rows.count() == everything
        seen.page.get_by_role("button", name="miss", exact=True).focus()
        seen.page.keyboard.press("Enter")
        assert rows.count() == 1
        assert "number.one" in rows.first.inner_text()
        seen.page.get_by_role("button", name="all").press("Enter")
        assert rows.count() == everything
