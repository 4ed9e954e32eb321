"""A Python file whose bytes the interpreter refuses is told, wherever the bytes stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.checking import check_file
from preflight.config import Config
from preflight.rule import registry
from preflight.syntax.python import PythonFile


@pytest.mark.parametrize("data", [b"# \xff\xfe\nx = 1\n", b'x = 1\ny = "\xe9"\n'])
def test_bytes_that_are_not_of_the_encoding(data: bytes, tmp_path: Path) -> None:
    result = check_file("a.py", data, "python", list(registry()), Config(tmp_path))

    (finding,) = result.findings
    assert finding.rule == "unparsed-file"
    assert "encoding" in finding.message or "is not utf-8" in finding.message


@pytest.mark.parametrize(
    "data",
    [b"x = 1\n", "# \u00e9\nx = 1\n".encode(), b"# -*- coding: latin-1 -*-\n# \xe9\nx = 1\n"],
)
def test_bytes_that_are(data: bytes) -> None:
    assert PythonFile("a.py", data).tree.body
