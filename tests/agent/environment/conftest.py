"""What the tests of the environment snapshot share: real outputs, fake hosts, fake tools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.agent.environment.probe import Answer, collect_abandoned
from orchestrator.agent.environment.surroundings import Surroundings

# What a busy machine may add to a time limit; the fakes that hang would hang for a minute.
SLACK_S = 4.0

ROOT = Path(__file__).resolve().parents[3]


def find_fixtures() -> Path | None:
    """The folder with real outputs: named by ORCH_FIXTURES, or beside the repository."""
    named = os.environ.get("ORCH_FIXTURES")
    places = [Path(named)] if named else []
    places += [ROOT.parent / "shared" / "fixtures", ROOT.parent.parent / "shared" / "fixtures"]
    return next((place for place in places if place.is_dir()), None)


FIXTURES = find_fixtures()
NO_FIXTURES = "no folder with real tool outputs: set ORCH_FIXTURES"


def fixture_files(*patterns: str) -> list[str]:
    """Names below the fixtures folder, for parametrize; one skipped case where it is missing."""
    if FIXTURES is None:
        return [pytest.param("", marks=pytest.mark.skip(reason=NO_FIXTURES))]  # type: ignore[list-item]
    found = [str(p.relative_to(FIXTURES)) for pattern in patterns for p in FIXTURES.glob(pattern)]
    assert found, f"no fixture matches {patterns}"
    return sorted(found)


def fixture_text(name: str) -> str:
    if FIXTURES is None:
        pytest.skip(NO_FIXTURES)
    return (FIXTURES / name).read_text("utf-8", "replace")


def answer(text: str, problem: str = "", exit_status: int | None = 0) -> Answer:
    return Answer(("tool",), exit_status, text.encode("utf-8"), b"", problem)


class FakeHost:
    """Files below a folder that stands for `/`, and tools on a PATH of their own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.root.mkdir()
        self.bin.mkdir()

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(str(self.root), str(self.bin))

    def file(self, path: str, content: str = "") -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, "utf-8")

    def tool(self, name: str, script: str) -> Path:
        """A tool that runs this shell script; `$*` are its arguments."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        path.chmod(0o755)
        return path

    def printing(self, name: str, outputs: dict[str, str], status: int = 0) -> Path:
        """A tool that prints `outputs[arguments]`, and complains about any other arguments."""
        folder = self.bin / f".{name}"
        folder.mkdir(exist_ok=True)
        cases = []
        for place, (arguments, text) in enumerate(outputs.items()):
            (folder / str(place)).write_text(text, "utf-8")
            cases.append(f'"{arguments}") cat "{folder}/{place}"; exit {status};;')
        script = 'case "$*" in\n' + "\n".join(cases)
        return self.tool(name, script + '\n*) echo "unknown arguments: $*" >&2; exit 2;;\nesac')


@pytest.fixture
def fake_host(tmp_path: Path) -> FakeHost:
    folder = tmp_path / "host"
    folder.mkdir()
    return FakeHost(folder)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Every command a test started has ended and was collected when the test is over."""
    yield

    assert collect_abandoned() == 0
