"""Windows and searches of a log agree with what plain Python says of the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.review import logs
from orchestrator.review.logs import Log

PIECES = st.lists(st.sampled_from([b"a", b"Ab", b"\n", b"\n\n", b"needle", b"NeeDle", b"x" * 9]))


@pytest.fixture(params=[7, 64, 256 << 10])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks so small that lines and hits lie across their edges, and the real size."""
    monkeypatch.setattr(logs, "BLOCK_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block")
@settings(max_examples=60, deadline=None)
@given(pieces=PIECES, first=st.integers(1, 12), count=st.integers(0, 12))
def test_windows_and_searches_are_exact(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], first: int, count: int
) -> None:
    content = b"".join(pieces)
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(content)
    log = Log(path)
    lines = content.decode().split("\n")
    lines = lines[:-1] if content.endswith(b"\n") or not content else lines
    assert log.lines == len(lines)
    shown = [(line.number, line.text) for line in log.window(first, count)]
    assert shown == list(enumerate(lines, 1))[first - 1 : first - 1 + count]
    hits = log.search("needle", first)
    wanted = [n for n, line in enumerate(lines, 1) if n >= first and "needle" in line.lower()]
    assert hits.complete
    assert [line.number for line in hits.lines] == wanted


def test_a_line_of_50_mb_is_cut_and_the_next_one_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 50_000_000 + b" needle\nafter\n")
    log = Log(path)
    one, two = log.window(1, 5)
    assert one.cut
    assert len(one.text) == logs.MAX_LINE_BYTES
    assert two.text == "after"
    assert [hit.number for hit in log.search("NEEDLE").lines] == [1]


class CountingPath:
    """A path that knows how many bytes were read of its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.read_bytes = 0

    def open(self, _mode: str) -> io.BufferedReader:
        owner = self

        class Counted(io.FileIO):
            def readinto(self, buffer: Any) -> int:
                count = super().readinto(buffer) or 0
                owner.read_bytes += count
                return count

        return io.BufferedReader(Counted(self._path))


def test_a_window_far_down_costs_blocks_not_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        for number in range(20):
            file.write(b"".join(b"%09d some words of a log, as they come\n" % n for n in range(
                number * 120_000, (number + 1) * 120_000)))  # fmt: skip
    assert path.stat().st_size > 100_000_000
    log = Log(path)
    counting = CountingPath(path)
    log.path = counting  # type: ignore[assignment]

    assert log.window(2_300_000, 50)[0].text.startswith("002299999")

    assert 0 < counting.read_bytes <= 2 * logs.BLOCK_BYTES
    assert [hit.number for hit in log.search("002299999", deadline_s=60).lines] == [2_300_000]


def test_too_many_hits_are_said_to_be_more(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"needle\n" * 2000)
    hits = Log(path).search("needle")
    assert not hits.complete
    assert len(hits.lines) == logs.MAX_HITS


def test_what_a_terminal_would_act_on_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes("\x1b[31mred\x1b[0m \u202eabc\x07\n".encode())
    (line,) = Log(path).window(1, 1)
    assert line.text == "red \N{REPLACEMENT CHARACTER}abc\N{REPLACEMENT CHARACTER}"
