"""All artifacts of two sides: the work grows with the number of pairs, not with its square."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.diff import artifacts
from orchestrator.diff.blob import Blob
from orchestrator.diff.confined import Confined
from orchestrator.diff.sides.folder import Folder
from orchestrator.diff.sides.side import Entry, Side


class Listed:
    """A folder that counts how often its list of files is asked for."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.asked = 0

    @property
    def entries(self) -> Mapping[str, Entry]:
        self.asked += 1
        return self._folder.entries

    def blob(self, path: str, scratch: Path) -> Blob:
        return self._folder.blob(path, scratch)


def test_a_side_is_listed_once_however_many_pairs_there_are(
    tmp_path: Path, confined: Confined
) -> None:
    for side in "ab":
        (tmp_path / side).mkdir()
        for number in range(30):
            (tmp_path / side / f"{number}.txt").write_text(f"{number}\n", "utf-8")
    a, b = (Listed(Folder(tmp_path / side)) for side in "ab")

    found = artifacts.compare(
        Side("a", "directory", a),
        Side("b", "directory", b),
        (),
        confined,
        is_artifact=lambda path: True,
    )

    assert [record.status for record in found.records] == ["equal"] * 30
    assert (a.asked, b.asked) == (1, 1)
