from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from orchestrator.report import live, words
from orchestrator.report.jsonlines import JsonTeller
from orchestrator.report.live import LiveTeller
from orchestrator.report.plain import PlainTeller
from orchestrator.store.history import History, JobView

STARTED = {
    "event": "step_started", "id": "a", "step": "a", "round": 0, "folder": "a",
    "deadline_s": 60.0, "elapsed_s": 0.1,
}  # fmt: skip
ENDED = {
    "event": "step_ended", "id": "a", "step": "a", "round": 0, "folder": "a", "point": {},
    "state": "failed", "duration_s": 3.21, "exit_code": 1, "reason": "exit code 1",
    "tail": ["one", "\x1b[31mred\x1b[0m and \x07 bell"], "leftover": ["sleep"],
}  # fmt: skip


def after(*events: dict[str, object]) -> History:
    history = History({"a": JobView("a", "a")})
    for event in events:
        history = history.after(event)
    return history


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("a\x07b", "a\ufffdb"),
        ("\u202eabc", "\ufffdabc"),
        ("plain ü", "plain ü"),
        ("\x1b]52;c;aGk=\x1b\\x", "x"),
    ],
)
def test_a_programs_text_cannot_act_on_the_terminal(text: str, harmless: str) -> None:
    assert words.harmless(text) == harmless


def test_plain_lines_tell_what_failed_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    teller = PlainTeller()

    teller.event(STARTED, after(STARTED))
    teller.event(ENDED, after(STARTED, ENDED))
    teller.close()

    out = capsys.readouterr().out
    assert "a: started, deadline 1 m 00 s" in out
    assert "a: failed: exit code 1 (left behind and killed: sleep)" in out
    assert "red and \ufffd bell" in out
    assert "\x1b" not in out


def test_json_lines_pass_events_through(capsys: pytest.CaptureFixture[str]) -> None:
    JsonTeller().event(ENDED, after(ENDED))

    assert json.loads(capsys.readouterr().out) == {"type": "event", "event": ENDED}


def test_the_live_table_shows_state_time_of_deadline_and_last_line() -> None:
    teller = LiveTeller()
    output = Console(file=io.StringIO(), width=120)
    try:
        teller.event(STARTED, after(STARTED))
        teller.tail("a", "\x1b[1mstep 3 of 9")
        output.print(teller._render())
    finally:
        teller.close()

    text = output.file.getvalue()
    assert "running" in text
    assert "/ 1 m 00 s" in text
    assert "step 3 of 9" in text


def test_a_long_run_shows_the_rows_around_what_happens_now() -> None:
    jobs = [JobView(f"j{n}", "s", state="passed" if n < 50 else "waiting") for n in range(100)]

    shown, hidden = live._window(jobs)

    assert hidden == 100 - len(shown)
    assert "j50" in [job.id for job in shown]
