"""Two contents, compared in this process; and where the real outputs of tools lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.diff import limits, reading, rules
from orchestrator.diff.blob import Blob
from orchestrator.diff.confined import Confined
from orchestrator.diff.record import Record

ROOT = Path(__file__).resolve().parent.parent.parent
Compare = Callable[..., Record]


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Compare two contents (bytes or text) under a name; keywords are those of a rule."""

    def run(a: bytes | str, b: bytes | str, name: str, **rule: Any) -> Record:
        bounds = rule.pop("limits", limits.DEFAULT)
        blobs = [write(tmp_path / side, content) for side, content in (("a", a), ("b", b))]
        chosen = rules.EVERYTHING.model_copy(update=rule)
        return reading.compare(name, blobs[0], blobs[1], chosen, bounds)

    return run


def write(folder: Path, content: bytes | str) -> Blob:
    """A file that holds this content, as a blob with a scratch directory of its own."""
    folder.mkdir(exist_ok=True)
    path = folder / "content"
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    return Blob(path, len(data), scratch=folder)


@pytest.fixture(scope="session")
def confined() -> Iterator[Confined]:
    """The reading process, with the limits of the product."""
    with Confined() as running:
        yield running


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """The folder with real outputs: named by ORCH_FIXTURES, or beside the repository."""
    named = os.environ.get("ORCH_FIXTURES")
    beside = [ROOT.parent / "shared" / "fixtures", ROOT.parent.parent / "shared" / "fixtures"]
    for place in [Path(named)] if named else beside:
        if place.is_dir():
            return place
    pytest.skip("no folder with real tool outputs: set ORCH_FIXTURES")
