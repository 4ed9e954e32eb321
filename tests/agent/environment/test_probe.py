from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.agent.environment import probe
from orchestrator.agent.environment.probe import (
    Command,
    Deadline,
    ask,
    collect_abandoned,
    find_tool,
)

from .conftest import SLACK_S, FakeHost


def shell(script: str, **more: object) -> Command:
    return Command(("/bin/sh", "-c", script), **more)  # type: ignore[arg-type]


def test_output_and_status_of_a_command_that_ends() -> None:
    answer = ask(shell("echo out; echo err >&2"), Deadline(5))

    assert (answer.output, answer.errors, answer.exit) == (b"out\n", b"err\n", 0)
    assert answer.problem == ""


@pytest.mark.parametrize("status", [6, 9, 18, 255])
def test_a_failing_command_tells_its_status_and_last_words_from_stdout(status: int) -> None:
    answer = ask(shell(f"echo 'Failed to initialize NVML'; exit {status}"), Deadline(5))

    assert answer.exit == status
    assert answer.problem == f"ended with exit status {status}: Failed to initialize NVML"


def test_a_command_killed_by_a_signal_is_told_apart_from_one_we_stopped() -> None:
    answer = ask(shell("kill -SEGV $$"), Deadline(5))

    assert answer.exit == -signal.SIGSEGV
    assert answer.problem == "ended with signal 11"


def test_a_command_that_ignores_term_is_killed_at_its_deadline_and_keeps_its_output(
    fake_host: FakeHost,
) -> None:
    stuck = fake_host.tool("nvidia-smi", "trap '' TERM\necho half\nwhile :; do sleep 60; done")
    started = time.monotonic()

    answer = ask(Command((str(stuck),)), Deadline(0.3))

    assert time.monotonic() - started < 0.3 + SLACK_S
    assert answer.problem == "did not answer within 0.3 s"
    assert (answer.exit, answer.output) == (None, b"half\n")


def test_the_whole_session_of_a_late_command_dies(fake_host: FakeHost, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = (
        f"trap '' TERM\n(trap '' TERM; echo $$ > {note}; exec sleep 60) &\necho $! > {note}\nwait"
    )
    stuck = fake_host.tool("nvidia-smi", script)

    ask(Command((str(stuck),)), Deadline(0.3))

    assert wait_until_gone(int(note.read_text()))


def wait_until_gone(pid: int) -> bool:
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_process_that_cannot_be_killed_is_left_behind_and_collected_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    real_killpg = os.killpg
    monkeypatch.setattr(probe.os, "killpg", lambda group, number: sent.append(group))
    started = time.monotonic()

    answer = ask(shell("exec sleep 60"), Deadline(0.2))

    assert time.monotonic() - started < 0.2 + SLACK_S
    assert f"process {sent[0]} hangs in the kernel and cannot be killed" in answer.problem
    assert collect_abandoned() == 1
    real_killpg(sent[0], signal.SIGKILL)
    assert wait_until_gone(sent[0])
    assert collect_abandoned() == 0


def test_a_command_runs_in_a_session_of_its_own() -> None:
    answer = ask(
        Command((sys.executable, "-c", "import os; print(os.getsid(0), os.getpid())")), Deadline(9)
    )

    session, pid = answer.text.split()
    assert session == pid
    assert int(session) != os.getsid(0)


def test_a_grandchild_that_holds_the_pipe_does_not_hold_up_the_answer() -> None:
    started = time.monotonic()

    answer = ask(shell("sleep 60 & echo done"), Deadline(5))

    assert time.monotonic() - started < SLACK_S
    assert (answer.output, answer.problem) == (b"done\n", "")


def test_a_command_that_closes_its_streams_and_goes_on_is_still_late() -> None:
    answer = ask(shell("exec >&- 2>&-; sleep 60"), Deadline(0.3))

    assert answer.problem == "did not answer within 0.3 s"


def test_output_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "OUTPUT_LIMIT_BYTES", 1 << 20)

    answer = ask(Command(("yes",)), Deadline(10))

    assert answer.problem == "printed more than 1 MiB"
    assert len(answer.output) < 2 << 20


def test_a_command_that_prints_for_ever_is_stopped_when_it_has_said_enough() -> None:
    script = "while :; do echo line; sleep 0.02; done"

    answer = ask(shell(script, enough=lambda output: output.count(b"\n") >= 2), Deadline(5))

    assert answer.problem == ""
    assert answer.output.startswith(b"line\nline\n")


def test_bytes_that_are_no_text_do_not_break_the_answer() -> None:
    answer = ask(shell(r"printf '\377\376\000garbage'; exit 3"), Deadline(5))

    assert answer.text.endswith("garbage")
    assert answer.exit == 3


def test_a_missing_command_and_a_missing_folder_are_answers_too(tmp_path: Path) -> None:
    missing = ask(Command(("/nonexistent/tool",)), Deadline(5))
    nowhere = ask(shell("true", cwd=str(tmp_path / "gone")), Deadline(5))

    assert missing.exit == 127
    assert "not found" in missing.problem
    assert nowhere.exit != 0
    assert "gone" in nowhere.problem


def test_arguments_reach_the_command_as_they_are(tmp_path: Path) -> None:
    odd = ["a b", "$HOME", "'", "", "ü\n", "-n"]

    answer = ask(
        Command((sys.executable, "-c", "import sys; print(sys.argv[1:])", *odd)), Deadline(9)
    )

    assert answer.text.strip() == str(odd)


def test_the_environment_is_the_one_that_is_given() -> None:
    answer = ask(Command(("/usr/bin/env",), env={"ONLY": "this"}), Deadline(5))

    assert "ONLY=this" in answer.text
    assert "HOME=" not in answer.text


def test_tools_speak_the_c_locale_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

    answer = ask(Command(("/usr/bin/env",)), Deadline(5))

    assert "LC_ALL=C\n" in answer.text


def test_without_time_nothing_is_started() -> None:
    assert ask(shell("echo never"), Deadline(0)).problem == "was not asked: no time was left"


def test_a_status_that_somebody_else_collected_is_told_and_not_taken_for_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stolen(pid: int, options: int) -> tuple[int, int]:
        raise ChildProcessError

    children: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def remember(*args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        children.append(real(*args, **kwargs))  # type: ignore[call-overload]
        return children[-1]

    monkeypatch.setattr(probe.subprocess, "Popen", remember)
    with monkeypatch.context() as patch:
        patch.setattr(probe.os, "waitpid", stolen)
        answer = ask(shell("exit 9"), Deadline(5))

    os.waitpid(children[0].pid, 0)
    assert answer.exit is None
    assert "somebody else collected its exit status" in answer.problem


def test_a_tool_is_found_on_the_path_before_its_vendors_places(tmp_path: Path) -> None:
    for folder in ("path", "vendor"):
        (tmp_path / folder).mkdir()
    for place in ("path/both", "vendor/both", "vendor/only"):
        (tmp_path / place).write_text("#!/bin/sh\n")
        (tmp_path / place).chmod(0o755)
    path, vendor = str(tmp_path / "path"), str(tmp_path / "vendor")

    assert find_tool("both", path, [vendor]) == f"{path}/both"
    assert find_tool("only", path, [vendor]) == f"{vendor}/only"
    assert find_tool("neither", path, [vendor]) is None
