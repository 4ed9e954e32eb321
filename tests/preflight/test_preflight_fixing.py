from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from preflight.cli import main
from preflight.finding import Edit, Finding, Fix, Grade, Profile, Severity, Span
from preflight.fixing import allowed_grades, fix_bytes

BOTH = allowed_grades(fix=True, unsafe=True)


def finding(fix: Fix) -> Finding:
    span = Span(1, 1, 1, 2, 0, 1)
    return Finding(
        "id", "r", "R1", "a.py", span, Severity.ERROR, Profile.REGULAR, "m", "c", "h", fix
    )


def test_fix_that_breaks_the_syntax_is_refused() -> None:
    broken = finding(Fix(Grade.SAFE, "break it", (Edit(0, 1, "("),)))

    result = fix_bytes("a.py", b"x = 1\n", [broken], BOTH)

    assert result.after == b"x = 1\n"
    assert result.refused == (broken,)


def test_fix_that_swallows_another_statement_is_refused() -> None:
    """The edit ends on line 1, and line 2 would become its comment."""
    greedy = finding(Fix(Grade.SAFE, "comment out", (Edit(5, 6, "  # "),)))

    result = fix_bytes("a.py", b"x = 1\ny = 2\n", [greedy], BOTH)

    assert result.refused == (greedy,)
    assert result.after == b"x = 1\ny = 2\n"


def test_overlapping_fixes_are_applied_one_at_a_time() -> None:
    one = finding(Fix(Grade.SAFE, "one", (Edit(4, 5, "2"),)))
    two = finding(Fix(Grade.SAFE, "two", (Edit(4, 5, "3"),)))

    result = fix_bytes("a.py", b"x = 1\n", [one, two], BOTH)

    assert result.after == b"x = 2\n"
    assert len(result.applied) == 1


def test_unsafe_and_display_fixes_need_more_than_fix() -> None:
    unsafe = finding(Fix(Grade.UNSAFE, "u", (Edit(4, 5, "2"),)))
    display = finding(Fix(Grade.DISPLAY, "d", (Edit(4, 5, "3"),)))

    result = fix_bytes("a.py", b"x = 1\n", [unsafe, display], allowed_grades(True, False))

    assert not result.changed
    assert Grade.DISPLAY not in BOTH


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_bytes(b"\xef\xbb\xbf#!/bin/bash\r\necho ready\r\n")
    return tmp_path


def test_fix_repairs_the_file_and_says_so(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([".", "--fix", "--no-cache"]) == 0

    assert (project / "run.sh").read_bytes() == b"#!/bin/bash\necho ready\n"
    assert "fixed 2 findings" in capsys.readouterr().out


def test_diff_shows_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (project / "run.sh").read_bytes()

    assert main([".", "--diff", "--no-cache"]) == 1

    assert (project / "run.sh").read_bytes() == before
    assert "+#!/bin/bash" in capsys.readouterr().out


def test_diff_applies_with_git(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "run.sh").unlink()
    (project / "a.py").write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    print(x)\n    return x\n", "utf-8"
    )
    main([".", "--diff", "--unsafe-fixes", "--no-cache"])
    patch = capsys.readouterr().out

    subprocess.run(["git", "init", "-q"], check=True, timeout=30)
    subprocess.run(["git", "apply"], input=patch.encode(), check=True, timeout=30)

    assert "print" not in (project / "a.py").read_text("utf-8")


def test_suppressed_finding_is_not_fixed(project: Path) -> None:
    text = b"#!/bin/bash\r\n# preflight: file-ignore[carriage-return] -- a test of CRLF\r\n"
    (project / "run.sh").write_bytes(text)

    main([".", "--fix", "--no-cache"])

    assert (project / "run.sh").read_bytes() == text
