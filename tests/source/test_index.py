"""The private index: whose it is, and what becomes of it."""

from __future__ import annotations

import os

import pytest

from orchestrator.source import index, repository
from tests.conftest import Project


def test_an_index_whose_process_was_killed_is_removed_later(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten = project.write(".git/orch-index-killed", "")
    found = repository.find(project.path)

    with index.private(found):
        is_kept_at_first = forgotten.exists()
    monkeypatch.setattr(index, "_FORGOTTEN_S", -1.0)
    with index.private(found):
        pass

    assert is_kept_at_first
    assert not forgotten.exists()


def test_an_index_in_use_stays_however_old_the_users_own_is(project: Project) -> None:
    project.write("a.txt", "a\n")
    project.commit()
    os.utime(project.path / ".git" / "index", (0, 0))
    found = repository.find(project.path)

    with index.private(found) as first, index.private(found):
        assert first.index is not None
        assert first.index.exists()
