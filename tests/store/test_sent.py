"""What each host was sent last."""

from __future__ import annotations

from pathlib import Path

from orchestrator.store import sent


def test_each_host_has_a_tree_of_its_own(tmp_path: Path) -> None:
    sent.note(tmp_path, "near", "a" * 40)
    sent.note(tmp_path, "far away", "b" * 40)
    sent.note(tmp_path, "near", "c" * 40)

    assert sent.last_tree(tmp_path, "near") == "c" * 40
    assert sent.last_tree(tmp_path, "far away") == "b" * 40
    assert sent.last_tree(tmp_path, "other") is None


def test_a_visit_whose_tree_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / ".visited").write_text("near\n", "utf-8")

    assert sent.last_tree(tmp_path, "near") == sent.UNKNOWN


def test_a_damaged_file_means_that_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / ".visited").write_bytes(b"near\t\xff\n")

    assert sent.last_tree(tmp_path, "near") is None
