from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from orchestrator.cli.app import preflight_command


@pytest.fixture
def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(preflight_command)
    return app


def test_orch_preflight_ends_as_the_linter_ends(
    command: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text('import torch\n\ntorch.set_default_device("cuda")\n', "utf-8")
    runner = CliRunner()

    found = runner.invoke(command, ["bad.py", "--output-format", "concise"])
    ignored = runner.invoke(command, ["bad.py", "--ignore", "DEV001"])
    absent = runner.invoke(command, ["absent.py"])

    assert (found.exit_code, ignored.exit_code, absent.exit_code) == (1, 0, 2)
    assert "bad.py:3:1: error[default-device-set]" in found.output
