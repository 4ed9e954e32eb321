"""Places on the host: under one root, none of them anybody else's."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from orchestrator.agent.layout import Root, write_atomically


class TestRoot:
    def test_is_made_for_its_owner_alone(self, tmp_path: Path) -> None:
        root = Root.at(str(tmp_path / "deep" / "root"))

        assert stat.S_IMODE(Path(root.path).stat().st_mode) == 0o700
        assert {p.name for p in Path(root.path).iterdir()} == {"blobs", "caches", "leases", "runs"}

    def test_may_be_in_the_home_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))

        assert Root.at("~/.orch").path == str(tmp_path / ".orch")

    def test_is_left_as_it_is_when_it_is_there(self, tmp_path: Path) -> None:
        once = Root.at(str(tmp_path / "root"))
        (Path(once.runs) / "run-1").mkdir()

        Root.at(str(tmp_path / "root"))

        assert (Path(once.runs) / "run-1").is_dir()

    @pytest.mark.parametrize(
        "name", ["..", ".", "", "a/b", "../x", "a..b", ".x", "-x", "x\n", "é", "x" * 200, "a b"]
    )
    def test_a_run_has_a_plain_name(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ValueError, match="not a run id"):
            Root.at(str(tmp_path)).run(name)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(str(path), "old\n")

    with pytest.raises(UnicodeEncodeError):
        write_atomically(str(path), "new\udcff\n")

    assert path.read_text("utf-8") == "old\n"
    assert list(tmp_path.iterdir()) == [path]
