"""Logs: raw bytes without secrets, never more than was promised, head and tail kept."""

from __future__ import annotations

import errno
import itertools
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.agent.logfile import MASK, LogFile, Masker, last_lines

MARKER = re.compile(rb"\n\[orch: (\d+) bytes left out here; the log limit was reached\]\n")


def logged(path: Path, limit: int, *pieces: bytes, secrets: tuple[bytes, ...] = ()) -> LogFile:
    log = LogFile(str(path), limit, secrets)
    for piece in pieces:
        log.write(piece)
    log.close()
    return log


class TestCap:
    def test_below_the_limit_every_byte_is_kept(self, tmp_path: Path) -> None:
        log = logged(tmp_path / "log", 1000, b"one\n", b"\0\xff", b"x" * 400)

        assert (tmp_path / "log").read_bytes() == b"one\n\0\xff" + b"x" * 400
        assert log.total_bytes == 406

    def test_above_it_head_and_tail_are_kept_and_the_gap_is_told(self, tmp_path: Path) -> None:
        lines = b"".join(b"line %06d\n" % number for number in range(1000))

        log = logged(tmp_path / "log", 400, lines)

        text = (tmp_path / "log").read_bytes()
        match = MARKER.search(text)
        assert match is not None
        head, tail = text[: match.start()], text[match.end() :]
        assert lines.startswith(head)
        assert lines.endswith(tail)
        assert len(head) == 200
        assert 100 <= len(tail) <= 200
        assert len(head) + int(match[1]) + len(tail) == len(lines) == log.total_bytes

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.binary(max_size=80), max_size=12), st.integers(1, 100))
    def test_nothing_is_lost_but_what_the_marker_counts(
        self, tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int
    ) -> None:
        path = tmp_path_factory.mktemp("log") / "log"
        whole = b"".join(pieces)

        log = logged(path, limit, *pieces)

        text = path.read_bytes()
        match = MARKER.search(text)
        head = text if match is None else text[: match.start()]
        tail = b"" if match is None else text[match.end() :]
        dropped = int(match[1]) if match else 0
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + dropped + len(tail) == len(whole) == log.total_bytes
        assert len(head) + len(tail) <= max(limit, 3)
        assert sorted(p.name for p in path.parent.iterdir()) == ["log"]

    def test_a_killed_supervisor_leaves_the_tail_beside_the_head(self, tmp_path: Path) -> None:
        log = LogFile(str(tmp_path / "log"), 400, ())
        log.write(b"h" * 200 + b"t" * 150)

        kept = b"".join((tmp_path / f"log.tail{n}").read_bytes() for n in (0, 1))
        log.close()

        assert kept == b"t" * 150

    def test_the_newest_bytes_are_at_hand(self, tmp_path: Path) -> None:
        log = logged(tmp_path / "log", 100, b"x" * 20_000, b"the end\n")

        assert log.recent.endswith(b"xxx" + b"the end\n")
        assert len(log.recent) == 8192


class TestFullDisk:
    def test_the_step_goes_on_and_the_loss_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = LogFile(str(tmp_path / "log"), 1000)
        log.write(b"before\n")
        full: list[bool] = [True]
        real = os.write

        def write(handle: int, data: Any) -> int:
            if full[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(handle, data)

        monkeypatch.setattr(os, "write", write)
        log.write(b"lost")
        log.write(b" too\n")
        full[0] = False
        log.write(b"after\n")
        log.close()

        assert log.problem == "No space left on device"
        text = (tmp_path / "log").read_bytes()
        assert text.startswith(b"before\n")
        assert text.endswith(b"after\n")
        assert b"\n[orch: 9 bytes could not be written: No space left on device]\n" in text
        assert log.recent == b"before\nlost too\nafter\n"

    def test_a_disk_that_stays_full_is_no_error_either(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = LogFile(str(tmp_path / "log"), 20)

        def write(handle: int, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", write)
        log.write(b"x" * 100)
        log.close()

        assert log.problem == "No space left on device"
        assert (tmp_path / "log").read_bytes() == b""


SECRETS = st.lists(st.text("ab[]s", min_size=1, max_size=6).map(str.encode), min_size=1, max_size=3)


def streamed(secrets: list[bytes], text: bytes, cuts: list[int]) -> bytes:
    masker = Masker(secrets)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    return b"".join([*(masker.mask(piece) for piece in pieces), masker.rest()])


def masked_at_once(secrets: list[bytes], text: bytes) -> bytes:
    """The leftmost secret, the longest of those that begin there, again and again."""
    out, place = b"", 0
    longest_first = sorted(secrets, key=len, reverse=True)
    while place < len(text):
        hit = next((s for s in longest_first if text.startswith(s, place)), None)
        out += MASK if hit else text[place : place + 1]
        place += len(hit) if hit else 1
    return out


class TestMasking:
    @settings(max_examples=500)
    @given(SECRETS, st.text("ab[]s", max_size=40).map(str.encode), st.lists(st.integers(0, 40)))
    def test_is_the_same_wherever_the_stream_is_cut(
        self, secrets: list[bytes], text: bytes, cuts: list[int]
    ) -> None:
        assert streamed(secrets, text, cuts) == masked_at_once(secrets, text)

    @settings(max_examples=300)
    @given(
        st.lists(st.binary(min_size=6, max_size=12), min_size=1, max_size=3),
        st.lists(st.integers(0, 2), max_size=6),
        st.binary(max_size=5),
        st.lists(st.integers(0, 90), max_size=8),
    )
    def test_no_value_is_ever_written(
        self, secrets: list[bytes], which: list[int], filler: bytes, cuts: list[int]
    ) -> None:
        text = filler.join([b"", *(secrets[n % len(secrets)] for n in which), b""])

        written = streamed(secrets, text, cuts)

        rest = written.replace(MASK, b"")
        assert not any(secret in rest.split(filler or b"\0") for secret in secrets)

    def test_byte_by_byte(self) -> None:
        text = b"a hunter2 b hunter hunter22"

        assert streamed([b"hunter2"], text, list(range(40))) == b"a [secret] b hunter [secret]2"

    def test_a_secret_that_begins_another_one_hides_all_of_the_longer(self) -> None:
        for cut in range(12):
            assert streamed([b"token", b"token-long"], b"token-long", [cut]) == MASK
            assert streamed([b"token", b"token-long"], b"token-lo", [cut]) == MASK + b"-lo"

    def test_the_start_of_a_secret_is_not_held_back_for_ever(self) -> None:
        masker = Masker([b"secret-value"])

        assert masker.mask(b"sec") == b""
        assert masker.mask(b"ond") == b"second"

    def test_of_nothing_costs_nothing(self) -> None:
        assert Masker([b""]).mask(b"abc") == b"abc"

    def test_in_a_log_the_head_the_tail_and_the_last_lines_are_masked(self, tmp_path: Path) -> None:
        pieces = [b"hunter2 " * 100, b"end hunt", b"er2\n"]

        log = logged(tmp_path / "log", 200, *pieces, secrets=(b"hunter2",))

        assert b"hunter2" not in (tmp_path / "log").read_bytes()
        assert b"hunter2" not in log.recent
        assert log.recent.endswith(b"end [secret]\n")


class TestLastLines:
    @pytest.mark.parametrize(
        ("text", "lines"),
        [
            (b"a\nb\nc\n", ["b", "c"]),
            (b"a\n\n\n  \nb", ["a", "b"]),
            (b"10 %\r50 %\r100 %\ndone\n", ["100 %", "done"]),
            (b"10 %\r50 %\r", ["50 %"]),
            (b"windows\r\nlines\r\n", ["windows", "lines"]),
            (b"\xff\xfe\n", ["\ufffd\ufffd"]),
            (b"", []),
            (b"x" * 600, ["x" * 500]),
        ],
    )
    def test_are_those_a_person_would_see(self, text: bytes, lines: list[str]) -> None:
        assert last_lines(text, 2) == lines
