"""Reading what a step left: never what a link leads to, and never waiting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.agent.plainfile import holds_any, open_plain

SECRET = b"hunter2-but-longer"


class TestOpening:
    def test_a_plain_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"text")

        with open_plain(str(tmp_path / "file")) as file:
            assert file.read() == b"text"

    @pytest.mark.parametrize("what", ["link", "pipe", "folder", "nothing"])
    def test_anything_else_is_an_error_at_once(self, tmp_path: Path, what: str) -> None:
        (tmp_path / "link").symlink_to("/etc/passwd")
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "folder").mkdir()

        with pytest.raises(OSError, match=r".+"):
            open_plain(str(tmp_path / what))


class TestHoldsAny:
    @pytest.mark.parametrize("before", [0, (1 << 20) - 1, (1 << 20) - 9, (1 << 20) - 18, 1 << 20])
    def test_a_value_across_the_border_of_two_reads_is_found(
        self, tmp_path: Path, before: int
    ) -> None:
        path = tmp_path / "big"
        path.write_bytes(b"x" * before + SECRET + b"y" * 5)

        assert holds_any(str(path), [b"other", SECRET])
        assert not holds_any(str(path), [SECRET + b"!"])

    def test_nothing_holds_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "empty").touch()

        assert not holds_any(str(tmp_path / "empty"), [SECRET])
        assert not holds_any(str(tmp_path / "empty"), [])
