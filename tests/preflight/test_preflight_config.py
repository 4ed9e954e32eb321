from __future__ import annotations

from pathlib import Path

import pytest

from preflight.cli import main
from preflight.config import ConfigError, Host, find_root, load_config, matches, parse_table
from preflight.finding import Profile, Severity


def test_unknown_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no key `profil`; did you mean `profile`\?"):
        parse_table(tmp_path, {"profil": "regular"}, "pyproject.toml")


def test_unknown_key_of_a_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hosts`.box: a host has no key `sm`"):
        parse_table(tmp_path, {"hosts": {"box": {"sm": 132}}}, "pyproject.toml")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"profile": "loud"}, "`loud` is none of regular, pedantic, auditor"),
        ({"exclude": "a"}, "expected a list of strings"),
        ({"preview": "yes"}, "expected bool"),
        ({"hosts": {"box": {"sms": True}}}, "expected int"),
        ({"severity": {"user-path": "fatal"}}, "none of info, warning, error"),
    ],
)
def test_wrong_type_is_refused(tmp_path: Path, table: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_table(tmp_path, table, "pyproject.toml")


def test_table_becomes_a_typed_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.preflight]\nprofile = "pedantic"\nseverity = {user-path = "info"}\n'
        'per-file = {"a/*" = ["DEV"]}\n[tool.preflight.hosts.box]\nsms = 132\narch = "sm_90"\n',
        "utf-8",
    )

    config = load_config(tmp_path)

    assert config.profile is Profile.PEDANTIC
    assert config.severity == {"user-path": Severity.INFO}
    assert config.per_file == {"a/*": ("DEV",)}
    assert config.hosts == {"box": Host("box", arch="sm_90", sms=132)}


def test_broken_toml_ends_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.preflight\n", "utf-8")
    (tmp_path / "a.py").write_text("x = 1\n", "utf-8")

    assert main([str(tmp_path)]) == 2
    assert "not valid TOML" in capsys.readouterr().err


def test_root_is_the_folder_with_our_table(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.preflight]\n", "utf-8")
    (inner / "pyproject.toml").write_text("[tool.other]\n", "utf-8")

    assert find_root(inner) == tmp_path


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("a.py", "**/*.py", True),
        ("x/a.py", "**/*.py", True),
        ("tests/a.py", "**/tests/**", True),
        ("tests/a.py", "tests", True),
        ("tests2/a.py", "tests", False),
        ("src/gen/a.py", "src/gen/", True),
    ],
)
def test_globs(path: str, glob: str, expected: bool) -> None:
    assert matches(path, (glob,)) is expected


def test_config_command_shows_where_a_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.preflight]\ntorch = "2.8"\n', "utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(["config", "--show-origin"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert f"torch = 2.8  # {tmp_path / 'pyproject.toml'}" in lines
    assert "profile = regular  # default" in lines
