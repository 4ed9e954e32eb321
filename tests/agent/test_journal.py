"""The journal: whole lines only, whatever happens while it is written."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agent import journal
from orchestrator.agent.journal import Journal, LineReader

EVENTS = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=3).map(
        lambda facts: {**facts, "event": "note"}
    ),
    max_size=8,
)


def written(path: Path, *notes: str) -> list[dict[str, Any]]:
    writer = Journal(str(path))
    events = [writer.write(journal.NOTE, text=note) for note in notes]
    writer.close()
    return events


class TestWriting:
    def test_events_are_numbered_and_timed(self, tmp_path: Path) -> None:
        first, second = written(tmp_path / "j", "one", "two")

        assert (first["n"], second["n"]) == (0, 1)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["at"])
        assert 0 <= first["elapsed_s"] <= second["elapsed_s"] < 10
        assert journal.read(str(tmp_path / "j")) == [first, second]

    def test_goes_on_behind_what_is_there(self, tmp_path: Path) -> None:
        written(tmp_path / "j", "one")
        again = Journal(str(tmp_path / "j"), first_number=1)
        again.write(journal.NOTE, text="two")
        again.close()

        assert [event["n"] for event in journal.read(str(tmp_path / "j"))] == [0, 1]

    @pytest.mark.parametrize("text", ["line\nbreak", "ü", "\u2028", "\udcff", '"\\'])
    def test_any_text_is_one_line(self, tmp_path: Path, text: str) -> None:
        written(tmp_path / "j", text, "next")

        found = journal.read(str(tmp_path / "j"))

        assert len(found) == 2
        assert found[0]["text"] == text

    def test_a_number_that_is_none_is_not_written(self, tmp_path: Path) -> None:
        writer = Journal(str(tmp_path / "j"))

        with pytest.raises(ValueError, match="JSON"):
            writer.write(journal.NOTE, value=float("nan"))
        writer.write(journal.NOTE, text="fine")
        writer.close()

        assert [event["text"] for event in journal.read(str(tmp_path / "j"))] == ["fine"]

    def test_two_threads_do_not_share_a_number(self, tmp_path: Path) -> None:
        writer = Journal(str(tmp_path / "j"))

        def write_many() -> None:
            for _ in range(200):
                writer.write(journal.NOTE, text="x")

        threads = [threading.Thread(target=write_many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        writer.close()

        numbers = [event["n"] for event in journal.read(str(tmp_path / "j"))]
        assert numbers == list(range(800))

    def test_a_full_disk_leaves_no_half_line_for_the_next_one_to_run_into(
        self, tmp_path: Path
    ) -> None:
        """A limit on the file's size cuts a write in the middle, as a full disk does."""
        program = """
import resource, signal, sys
from orchestrator.agent.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = Journal(sys.argv[1])
writer.write("note", text="one")
resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
try:
    writer.write("note", text="x" * 1000)
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.write("note", text="two")
"""
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "j")],
            cwd=Path(__file__).parent.parent.parent,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )

        assert done.stdout == "File too large\n"
        found = journal.read(str(tmp_path / "j"))
        assert [(event["n"], event["text"]) for event in found] == [(0, "one"), (1, "two")]


class TestReading:
    @given(EVENTS, st.lists(st.integers(0, 2000), max_size=10))
    def test_pieces_cut_anywhere_give_the_same_events(
        self, events: list[dict[str, str]], cuts: list[int]
    ) -> None:
        raw = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        reader = LineReader()
        places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})

        found = [
            event
            for start, end in itertools.pairwise(places)
            for event in reader.feed(raw[start:end])
        ]

        assert found == events

    @pytest.mark.parametrize("half", [b'{"event": "no', b"{", b"\0\0\0\0"])
    def test_half_a_line_at_the_end_does_not_count(self, tmp_path: Path, half: bytes) -> None:
        written(tmp_path / "j", "one")
        with (tmp_path / "j").open("ab") as file:
            file.write(half)

        assert len(journal.read(str(tmp_path / "j"))) == 1

    @pytest.mark.parametrize(
        "line", [b"x\n", b"5\n", b"{}\n", b"\xff\n", b"\n", b"[" * 99_999 + b"\n"]
    )
    def test_a_damaged_line_is_told(self, tmp_path: Path, line: bytes) -> None:
        written(tmp_path / "j", "one")
        with (tmp_path / "j").open("ab") as file:
            file.write(line + b"\n")

        with pytest.raises(ValueError, match=r".+"):
            journal.read(str(tmp_path / "j"))


def test_the_clock_is_utc_with_milliseconds() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", journal.now())
