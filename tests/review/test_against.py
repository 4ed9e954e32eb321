"""A review against another run: its artifacts side by side, each difference to be decided."""

from __future__ import annotations

import re
import shutil
import socket

import pytest

from orchestrator import reading
from orchestrator.diff.comparison import between_runs
from orchestrator.diff.record import Record
from orchestrator.report.view import RunView
from orchestrator.review.desk import Desk
from orchestrator.review.page import page
from orchestrator.store.rundir import RunDir
from tests.conftest import Project


@pytest.fixture
def records(before: RunDir, after: RunDir) -> tuple[Record, ...]:
    return between_runs(before, after).artifacts


def card_of(text: str, ending: str) -> str:
    """The card of the first difference whose path ends so."""
    cards = re.findall(r"<article .*?</article>", text, re.DOTALL)
    return next(card for card in cards if f'{ending}"' in card.split(">", 1)[0])


def test_artifacts_of_two_runs_are_paired_by_their_path(records: tuple[Record, ...]) -> None:
    found = {record.path.rsplit("/", 1)[-1]: record for record in records}

    assert found["result1.safetensors"].type == "safetensors"
    assert found["result1.safetensors"].status == "different"
    assert found["plot1.png"].type == "image"
    assert found["log"].type == "text"
    assert not any("results.jsonl" in path for path in found)


def test_the_page_shows_both_sides_of_each_difference(
    view: RunView, before: RunDir, records: tuple[Record, ...]
) -> None:
    text = page(Desk(view, reading.view(before), records))

    log = card_of(text, "/log")
    assert "line 0 of the log, shift 0" in log
    assert "line 0 of the log, shift 3" in log
    tensor = card_of(text, "result1.safetensors")
    assert "<dt>max_abs</dt><dd>0.5</dd>" in tensor
    assert "[0, 7]" in tensor
    image = card_of(text, "plot1.png")
    assert 'data-mode="overlay"' in image
    assert re.search(r'src="overlay/a\d+/b\d+"', image)
    assert len(re.findall(r'<img [^>]*src="file/[ab]\d+"', image)) == 2


def test_the_page_shows_what_else_is_known_of_both(
    project: Project,
    view: RunView,
    before: RunDir,
    after: RunDir,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(project.path)

    text = page(Desk(view, reading.view(before), comparison=between_runs(before, after)))

    section = text[text.index('<section id="against"') :]
    section = section[: section.index("</section>")]
    assert f"orch source diff {before.run_id} {after.run_id}" in section
    assert re.search(r"too few</span>.*?time <span.*?10 us.*?13 us.*?1\.300", section, re.DOTALL)
    assert "states of the host differ" in section
    assert "rounds: 8" in section


def test_the_command_asks_about_the_differences(
    project: Project, before: RunDir, after: RunDir
) -> None:
    told = project.orch("review", after.run_id, "--against", before.run_id, "--tty")

    assert told.code == 3
    assert f"comparing with {before.run_id}" in told.out
    # Three predictions; a log, an image and a tensor of each of two points.
    assert "1 of 9" in told.out
    assert "left with 9 open" in told.out


def test_a_run_against_itself_is_refused(project: Project, before: RunDir) -> None:
    told = project.orch("review", "latest", "--against", before.run_id, "--tty")

    assert told.code == 2
    assert f"is {before.run_id} itself" in told.err


def test_a_port_that_is_taken_is_told_before_anything_is_compared(
    project: Project, before: RunDir, after: RunDir
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = project.orch("review", after.run_id, "--against", before.run_id, "--port", port)

    assert told.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in told.err
    assert "comparing with" not in told.text


def test_a_run_that_lost_its_evidence_is_told_so(
    project: Project, before: RunDir, after: RunDir
) -> None:
    shutil.rmtree(before.evidence)
    before.bundle.unlink()

    against = project.orch("review", after.run_id, "--against", before.run_id, "--tty")
    alone = project.orch("review", before.run_id, "--tty")

    for told in (against, alone):
        assert told.code == 3
        assert "Traceback" not in told.text
        assert "Errno" not in told.text
        assert f"fix: orch fetch {before.run_id}" in " ".join(told.text.split())
        assert "left with" not in told.out
