"""The size guard's words and sums."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import SourceError
from orchestrator.source import size


class TestRefuseAbove:
    def test_the_largest_come_first_with_their_sizes(self) -> None:
        sizes = {f"f{n}": n * 1_000_000 for n in range(1, 13)}

        with pytest.raises(SourceError) as caught:
            size.refuse_above(10_000_000, sizes, "the host lacks files of")

        lines = caught.value.what.splitlines()
        assert lines[0] == (
            "the host lacks files of 78.0 MB, more than the 10.0 MB of `max_upload`; the largest:"
        )
        assert [line.split() for line in lines[1:4]] == [
            ["12.0", "MB", "f12"],
            ["11.0", "MB", "f11"],
            ["10.0", "MB", "f10"],
        ]
        assert len(lines) == 11

    def test_at_the_limit_nothing_is_refused(self) -> None:
        size.refuse_above(3, {"a": 1, "b": 2}, "files hold")


class TestCheckNewFiles:
    def test_counts_files_not_links_nor_directories(self, tmp_path: Path) -> None:
        (tmp_path / "big").write_bytes(b"x" * 100)
        (tmp_path / "link").symlink_to("big")
        (tmp_path / "folder").mkdir()

        size.check_new_files(tmp_path, ["link", "folder", "deleted"], 10)

        with pytest.raises(SourceError, match="big"):
            size.check_new_files(tmp_path, ["big"], 10)
