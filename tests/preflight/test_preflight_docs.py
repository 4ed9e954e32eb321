"""The user's page says what the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from preflight.config import load_config
from preflight.guard import GUARDS
from preflight.schedule_command import check_file

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "preflight.md").read_text("utf-8")


def fence(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(block)


def test_configuration_of_the_page_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(fence("toml"), "utf-8")

    config = load_config(tmp_path)

    assert config.hosts["h100"].sms == 132
    assert config.container_paths == ("/mnt/shared",)


def test_schedule_of_the_page_holds(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    file.write_text(fence("json"), "utf-8")

    assert check_file(file) == []
    assert {c["check"] for c in json.loads(fence("json"))["checks"]} == {
        "order",
        "residency",
        "waves",
        "rows",
    }


@pytest.mark.parametrize("name", sorted(GUARDS))
def test_every_guard_is_on_the_page(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_transcript_of_the_page_is_what_the_program_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from preflight.cli import main

    monkeypatch.chdir(tmp_path)
    lines = ["import torch", "", "", "def worker(rank):", '    torch.set_default_device("cuda")']
    (tmp_path / "worker.py").write_text("\n".join(lines) + "\n", "utf-8")

    main([".", "--no-cache"])

    assert capsys.readouterr().out == fence("console").partition("\n")[2]
