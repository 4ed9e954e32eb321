"""What each host was sent last."""

from __future__ import annotations

from pathlib import Path

from orchestrator.store import sent
from orchestrator.store.sent import Sent


def test_each_host_has_a_tree_of_its_own(tmp_path: Path) -> None:
    sent.note(tmp_path, "near", Sent("a" * 40, "agent"))
    sent.note(tmp_path, "far away", Sent("b" * 40, "agent"))
    sent.note(tmp_path, "near", Sent("c" * 40, "other"))

    assert sent.last(tmp_path, "near") == Sent("c" * 40, "other")
    assert sent.last(tmp_path, "far away") == Sent("b" * 40, "agent")
    assert sent.last(tmp_path, "other") is None


def test_a_damaged_file_means_that_nothing_is_known(tmp_path: Path) -> None:
    sent.note(tmp_path, "near", Sent("a" * 40, "agent"))
    path = tmp_path / ".visited"
    whole = path.read_bytes()

    for damaged in (b"\xff" + whole, whole[:30] + b"\n", whole.replace(b"\n", b"\tmore\n")):
        path.write_bytes(damaged)
        assert sent.last(tmp_path, "near") is None


def test_a_file_that_cannot_be_read_means_that_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / ".visited").mkdir()

    assert sent.last(tmp_path, "near") is None
