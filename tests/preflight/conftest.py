"""Small projects in a temporary folder, linted in process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.config import load_config
from preflight.engine import Options, Report, run

Lint = Callable[..., Report]


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lint:
    """Write files (text or bytes by path) into a fresh project and lint it."""
    monkeypatch.chdir(tmp_path)

    def write_and_run(files: dict[str, str | bytes], **options: object) -> Report:
        for name, content in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        settings = {"cache": False, "jobs": 1} | options
        return run([tmp_path], load_config(tmp_path), Options(**settings))  # type: ignore[arg-type]

    return write_and_run
