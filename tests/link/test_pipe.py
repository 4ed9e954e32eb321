"""A byte pipe to a program: it carries, and it does not wait for ever."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from orchestrator.errors import ProtocolError, Unreachable
from orchestrator.link import pipe
from orchestrator.link.pipe import ProcessPipe
from orchestrator.link.session import Session
from orchestrator.spec.hosts import Host


def test_more_than_the_system_holds_is_carried_whole() -> None:
    echo = ProcessPipe(["cat"])
    sent = os.urandom(3_000_000)
    heard: list[bytes] = []

    def read() -> None:
        while sum(map(len, heard)) < len(sent):
            heard.append(echo.read(100_000))

    reading = threading.Thread(target=read)
    reading.start()
    echo.write(sent)
    reading.join(timeout=60)
    echo.close()

    assert b"".join(heard) == sent


def test_a_program_that_takes_nothing_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipe, "STALL_S", 0.2)
    deaf = ProcessPipe(["sleep", "60"])

    with pytest.raises(TimeoutError, match="nothing was taken"):
        deaf.write(bytes(1_000_000))

    monkeypatch.setattr(pipe, "CLOSE_DEADLINE_S", 0.1)
    deaf.close()


def test_a_host_that_will_not_stop_talking_is_told_as_that(tmp_path: Path) -> None:
    chatter = ("sh", "-c", "head -c 3000000 /dev/zero; exec cat >/dev/null", "--")

    with Session("loud", Host(via=chatter, root=str(tmp_path))) as session:
        session.open("list")

        # Not one scan of all that was heard for every few bytes: that took 16 s.
        with pytest.raises(ProtocolError, match="a megabyte of output and no greeting"):
            session.expect("welcome", 8)


def test_a_host_that_takes_nothing_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "STALL_S", 0.2)
    monkeypatch.setattr(pipe, "CLOSE_DEADLINE_S", 0.1)

    with (
        Session(
            "deaf", Host(via=("sh", "-c", "exec sleep 60", "--"), root=str(tmp_path))
        ) as session,
        pytest.raises(Unreachable, match="`deaf` took nothing of what it was sent"),
    ):
        session.open("list")
