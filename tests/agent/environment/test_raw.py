from __future__ import annotations

import hashlib
from pathlib import Path

from orchestrator.agent.environment.raw import Output, output_of, store

from .conftest import answer


def test_outputs_are_written_with_hash_size_command_and_status(tmp_path: Path) -> None:
    output = Output("nvidia-smi-q.xml", ("nvidia-smi", "-q", "-x"), 0, b"<log/>\n")

    entries, reading = store([output], str(tmp_path / "raw"))

    assert (tmp_path / "raw" / "nvidia-smi-q.xml").read_bytes() == b"<log/>\n"
    assert entries == [
        {
            "file": "nvidia-smi-q.xml",
            "sha256": hashlib.sha256(b"<log/>\n").hexdigest(),
            "size": 7,
            "command": "nvidia-smi -q -x",
            "exit": 0,
        }
    ]
    assert reading.value == 1


def test_secrets_are_gone_before_the_hash_is_made(tmp_path: Path) -> None:
    output = Output("x.txt", ("x",), 0, b"python --api-key=planted serve\n")

    entries, _ = store([output], str(tmp_path))

    stored = (tmp_path / "x.txt").read_bytes()
    assert b"planted" not in stored
    assert entries[0]["sha256"] == hashlib.sha256(stored).hexdigest()


def test_bytes_that_are_no_text_are_stored_as_they_are(tmp_path: Path) -> None:
    store([Output("x.bin", ("x",), 0, b"\xff\xfe\x00ok")], str(tmp_path))

    assert (tmp_path / "x.bin").read_bytes() == b"\xff\xfe\x00ok"


def test_an_output_that_cannot_be_written_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    (tmp_path / "taken.txt").mkdir()
    outputs = [Output("taken.txt", ("a",), 0, b"a"), Output("free.txt", ("b",), 0, b"b")]

    entries, reading = store(outputs, str(tmp_path))

    assert [entry["file"] for entry in entries] == ["free.txt"]
    assert reading.state == "error"
    assert "taken.txt" in reading.detail


def test_what_a_command_said_on_its_error_stream_is_kept_when_it_said_nothing_else() -> None:
    silent = answer("")

    assert output_of("x.txt", silent).content == b""
    assert output_of("x.txt", answer("out")).content == b"out"
