"""The kernel's count of kills for memory: a count that is not known is not zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.agent import cgroup, oom


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of counts of a group that lies in a plain directory."""
    (tmp_path / "own").write_text("0::/job\n", "ascii")
    (tmp_path / "mounts").write_text(f"3 1 0:2 / {tmp_path} rw - cgroup2 cgroup rw\n", "ascii")
    (tmp_path / "job").mkdir()
    monkeypatch.setattr(cgroup, "OWN", str(tmp_path / "own"))
    monkeypatch.setattr(cgroup, "MOUNTS", str(tmp_path / "mounts"))
    return tmp_path / "job" / "memory.events"


def test_one_more_than_before_is_a_kill(events: Path) -> None:
    events.write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n", "ascii")
    before = oom.kills()
    assert before == 2
    assert oom.happened_since(before) is False

    events.write_text("low 0\nhigh 0\nmax 9\noom 3\noom_kill 3\n", "ascii")

    assert oom.happened_since(before) is True


@pytest.mark.parametrize("content", [None, "", "low 0\n", "oom_kill many\n", "oom_kill\n"])
def test_what_the_kernel_does_not_say_is_not_known(events: Path, content: str | None) -> None:
    if content is not None:
        events.write_text(content, "ascii")

    assert oom.kills() is None
    assert oom.happened_since(1) is None
    assert oom.happened_since(None) is None
