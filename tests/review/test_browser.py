"""The review page as a person drives it, in a real browser, on both widths."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ruamel.yaml import YAML

from orchestrator.store.rundir import RunDir
from tests.browser import Visit, visit
from tests.conftest import COMMAND_DEADLINE_S, Project


class Served:
    """`orch review`, running."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def end(self) -> tuple[int, str]:
        """Wait for it to end by itself; its exit code and what it said."""
        said, _ = self.process.communicate(timeout=COMMAND_DEADLINE_S)
        return self.process.returncode, said


@contextmanager
def review(project: Project, *arguments: str) -> Iterator[Served]:
    process = project.start("review", *arguments, "--no-browser")
    try:
        assert process.stdout is not None
        end = time.monotonic() + COMMAND_DEADLINE_S
        url = None
        while url is None:
            assert time.monotonic() < end, "no address was told"
            line = process.stdout.readline()
            assert line, f"it ended: {process.communicate(timeout=10)}"
            url = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
        yield Served(process, url.group())
    finally:
        process.kill()
        # Reads what is left and closes both pipes, which nobody else does.
        process.communicate(timeout=10)


def card(seen: Visit, ending: str) -> Any:
    """The card whose subject ends so."""
    return seen.page.locator(f'article.card[data-subject$="{ending}"]').first


def look(seen: Visit) -> None:
    """What an eye, and axe, would mind."""
    assert not seen.is_wider_than_the_window
    assert seen.overlaps() == []
    assert seen.accessibility_problems() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_review_from_the_first_look_to_the_end(
    project: Project, before: RunDir, after: RunDir, width: int
) -> None:
    with review(project, after.run_id, "--against", before.run_id) as served:
        with visit(served.url, width=width) as seen:
            page = seen.page
            assert page.locator("#open-count").inner_text() == "9"
            look(seen)
            assert page.locator("#against").get_by_text("1.300").first.is_visible()

            page.get_by_role("button", name="misses", exact=True).click()
            shown = page.locator("article.card:visible")
            assert shown.count() == 2, "the two predictions that missed"
            assert all("miss" in text for text in shown.all_inner_texts())
            page.get_by_role("button", name="all", exact=True).click()

            image = card(seen, "plot1.png")
            image.get_by_text("what differs", exact=True).click()
            for mode in ("overlay", "difference", "changed pixels"):
                image.get_by_role("button", name=mode).click()
            marked = image.locator(".marked img")
            marked.scroll_into_view_if_needed()
            page.wait_for_function("image => image.naturalWidth > 0", arg=marked.element_handle())
            tensor = card(seen, "result1.safetensors")
            tensor.get_by_text("what differs", exact=True).click()
            assert "max_abs" in tensor.inner_text()
            assert tensor.get_by_text("[0, 7]").is_visible()
            look(seen)

            missed = card(seen, "time.one")
            missed.get_by_role("button", name="Accept").click()
            missed.get_by_role("alert").filter(has_text="reason").wait_for()
            missed.get_by_label("Reason").fill("the shift is meant")
            missed.get_by_role("button", name="Accept").click()
            missed.locator("[data-shows-state]", has_text="accepted").wait_for()
            image.get_by_label("Reason").fill("the picture is wrong")
            image.get_by_role("button", name="Reject").click()
            image.locator("[data-shows-state]", has_text="rejected").wait_for()
            assert page.locator("#open-count").inner_text() == "7"

            page.reload()
            assert page.locator("#open-count").inner_text() == "7"
            assert (
                card(seen, "time.one").get_by_label("Reason").input_value() == "the shift is meant"
            )
            look(seen)
            page.get_by_role("button", name="Finish").click()
            page.get_by_text("1 accepted, 1 rejected, 7 open").wait_for()
            assert seen.messages == []
            assert all(r.startswith((served.url, "data:")) for r in seen.requests)
        code, said = served.end()

    assert code == 3, said
    written = YAML(typ="safe").load((after.path / "review.yaml").read_text("utf-8"))
    assert [(d["verdict"], d["reason"]) for d in written["decisions"]] == [
        ("accepted", "the shift is meant"),
        ("rejected", "the picture is wrong"),
    ]
    assert "value: 13" in (after.path / "ledger.next.yaml").read_text("utf-8")
    assert after.ledger.read_text("utf-8") == before.ledger.read_text("utf-8")


def test_one_answer_for_all_that_are_alike(project: Project, after: RunDir) -> None:
    with review(project, after.run_id) as served, visit(served.url, width=390) as seen:
        one, two = card(seen, "time.one"), card(seen, "time.two")
        one.get_by_label("all 2 like it").check()
        one.get_by_label("Reason").fill("the shift is meant")
        look(seen)

        one.get_by_role("button", name="Accept").click()

        two.locator("[data-shows-state]", has_text="accepted").wait_for()
        assert two.get_by_label("Reason").input_value() == "the shift is meant"
        assert not two.get_by_label("all 2 like it").is_visible()
        assert seen.page.locator("#open-count").inner_text() == "1"
        two.get_by_role("button", name="Undo").click()
        two.locator("[data-shows-state]", has_text="open").wait_for()
        assert seen.messages == []


def test_the_later_of_two_tabs_and_one_without_a_server_are_told_so(
    project: Project, after: RunDir
) -> None:
    with review(project, after.run_id) as served, visit(served.url) as late:
        early = late.page.context.new_page()
        early.goto(served.url)
        decided = early.locator('article.card[data-subject$="time.one"]')
        decided.get_by_label("Reason").fill("it is too slow")
        decided.get_by_role("button", name="Reject").click()
        decided.locator("[data-shows-state]", has_text="rejected").wait_for()
        early.close()

        missed = card(late, "time.one")
        missed.get_by_label("Reason").fill("the shift is meant")
        missed.get_by_role("button", name="Accept").click()
        missed.get_by_role("alert").filter(has_text="rejected: it is too slow").wait_for()
        assert missed.locator("[data-shows-state]").inner_text() == "rejected"
        assert missed.get_by_label("Reason").input_value() == "the shift is meant"
        assert late.page.locator("#open-count").inner_text() == "2"
        missed.get_by_role("button", name="Accept").click()
        missed.locator("[data-shows-state]", has_text="accepted").wait_for()

        served.process.kill()
        served.process.wait(COMMAND_DEADLINE_S)
        other = card(late, "time.two")
        other.get_by_role("button", name="Reject").click()
        gone = f"the review server has ended; run `orch review {after.run_id}` again"
        other.get_by_role("alert").filter(has_text=f"{gone}; this was not saved").wait_for()
        assert other.locator("[data-shows-state]").inner_text() == "open"


def test_the_log_viewer_finds_a_line_in_a_hundred_megabytes(
    project: Project, after: RunDir
) -> None:
    log = next(after.evidence.glob("steps/*/log"))
    with log.open("w", encoding="utf-8") as file:
        for number in range(1, 2_000_001):
            file.write(f"line {number} of very many, of fifty or so letters\n")
        file.write("the needle\n")
    assert log.stat().st_size > 95_000_000
    with review(project, "latest") as served, visit(served.url) as seen:
        page = seen.page
        page.locator("#log-file").select_option(label=_label_of(page, f"{log.parent.name}/log"))
        page.get_by_text("2000001 lines").wait_for()
        page.get_by_label("Search").fill("needle")
        page.get_by_label("Search").press("Enter")
        hit = page.get_by_role("button", name="2000001: the needle")
        hit.click()
        page.locator("#log-lines .hit", has_text="the needle").wait_for()
        page.locator("#log-view").press("Home")
        page.get_by_text("line 1 of very many").wait_for()
        assert seen.messages == []


def _label_of(page: Any, name: str) -> str:
    options = page.locator("#log-file option").all_inner_texts()
    return next(str(text) for text in options if f"/{name} (" in str(text))
