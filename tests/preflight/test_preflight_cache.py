from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from preflight import checking, engine
from preflight.cache import FOLDER
from preflight.config import load_config
from preflight.engine import Options, run

BAD = 'import torch\n\ntorch.set_default_device("cuda")\n'
GOOD = 'import torch\n\ntorch.set_default_device("cpu") \n'


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of files that were really checked."""
    seen: list[str] = []

    def recorded(path: str, *rest: object) -> checking.FileResult:
        seen.append(path)
        return checking.check_file(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "check_file", recorded)
    return seen


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def rules_found(folder: Path) -> list[str]:
    report = run([folder], load_config(folder), Options(jobs=1))
    return [finding.rule for finding in report.findings]


def test_unchanged_file_is_not_checked_again(tmp_path: Path, checked: list[str]) -> None:
    (tmp_path / "a.py").write_text(BAD, "utf-8")
    age(tmp_path / "a.py", 60)

    first, second = rules_found(tmp_path), rules_found(tmp_path)

    assert first == second == ["default-device-set"]
    assert checked == ["a.py"]


def test_changed_bytes_are_seen_although_size_and_time_are_equal(
    tmp_path: Path, checked: list[str]
) -> None:
    """A file written in the same clock tick as the run before it is read and hashed."""
    file = tmp_path / "a.py"
    file.write_text(BAD, "utf-8")
    facts = file.stat()
    rules_found(tmp_path)

    file.write_text(GOOD[: len(BAD)], "utf-8")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    assert rules_found(tmp_path) == []
    assert checked == ["a.py", "a.py"]


def test_touched_file_with_equal_bytes_is_not_checked_again(
    tmp_path: Path, checked: list[str]
) -> None:
    (tmp_path / "a.py").write_text(BAD, "utf-8")
    rules_found(tmp_path)
    age(tmp_path / "a.py", 30)

    assert rules_found(tmp_path) == ["default-device-set"]
    assert checked == ["a.py"]


def test_other_configuration_is_another_cache(tmp_path: Path, checked: list[str]) -> None:
    (tmp_path / "a.py").write_text(BAD, "utf-8")
    age(tmp_path / "a.py", 60)
    rules_found(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.preflight]\ntorch = "2.8"\n', "utf-8")

    rules_found(tmp_path)

    assert checked == ["a.py", "a.py"]


def test_damaged_cache_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD, "utf-8")
    rules_found(tmp_path)
    for file in (tmp_path / FOLDER).glob("*.json"):
        file.write_text("{ half", "utf-8")

    assert rules_found(tmp_path) == ["default-device-set"]


def test_cache_folder_ignores_itself(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD, "utf-8")
    rules_found(tmp_path)

    assert (tmp_path / FOLDER / ".gitignore").read_text("utf-8") == "*\n"
