"""What a glob of `collect:` means, and that it leads nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.agent.patterns import matches

FILES = ("a.json", "b.txt", ".hidden.json", "out/a.json", "out/deep/er/a.json", "out/.git/c.json")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    inside = tmp_path / "base"
    for name in FILES:
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes(b"x")
    (tmp_path / "secret.json").write_bytes(b"x")
    (inside / "away").symlink_to(tmp_path)
    (inside / "out" / "loop").symlink_to(inside)
    return inside


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.json", ["a.json"]),
        ("./a.json", ["a.json"]),
        (".*.json", [".hidden.json"]),
        ("[ab].*", ["a.json", "b.txt"]),
        ("out/*.json", ["out/a.json"]),
        ("**/*.json", ["a.json", "out/a.json", "out/deep/er/a.json"]),
        ("out/**", ["out/a.json", "out/loop", "out/deep/er/a.json"]),
        ("out/**/a.json", ["out/a.json", "out/deep/er/a.json"]),
        ("out/.git/*", ["out/.git/c.json"]),
        ("**/**/a.json", ["a.json", "out/a.json", "out/deep/er/a.json"]),
        ("out", []),
        ("*.JSON", []),
        ("", []),
    ],
)
def test_what_it_matches(base: Path, pattern: str, found: list[str]) -> None:
    problems: list[str] = []

    assert sorted(matches(pattern, str(base), problems)) == sorted(found)
    assert problems == []


@pytest.mark.parametrize(
    "pattern", ["../secret.json", "away/secret.json", "away/*", "out/../../*", "out/loop/*"]
)
def test_it_never_leaves_its_directory(base: Path, pattern: str) -> None:
    assert list(matches(pattern, str(base), [])) == []


def test_an_absolute_pattern_matches_nothing(base: Path) -> None:
    assert list(matches(f"{base.parent}/secret.json", str(base), [])) == []


def test_a_directory_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    problems: list[str] = []

    assert list(matches("*", str(tmp_path / "gone"), problems)) == []

    assert problems == ["`.` cannot be looked into: No such file or directory"]
