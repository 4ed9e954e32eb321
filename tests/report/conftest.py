"""Runs that are home, made by `orch run` itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Molds, Project

SCRIPT = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
ESCAPES = "\x1b]0;taken\x07\x1b[2J\x1b[31mred\x1b[0m \u202etxt.exe\u2066"

HOSTILE = f"""
experiment: hostile
question: "Is {SCRIPT.replace('"', "'")} shown as text?"
timeout: 60s
steps:
  - id: speaks
    matrix:
      word: ["<b>bold</b>", "a|b", "`x`"]
      n: [1, 2]
    run: python3 speak.py
    collect: ["out/*"]
  - id: fails
    run: python3 fail.py
ledger: hostile.ledger.yaml
"""

LEDGER = """
ledger: hostile
entries:
  - id: number.one
    metric: number
    where: {word: "a|b", n: 1}
    unit: us
    expect: {value: 2, rel: 10%}
    because: "</td></table><script>document.title='taken'</script> is what I expect"
    decides: "<img src=x onerror=alert(1)>"
    source: guess
  - id: number.hit
    metric: number
    where: {word: "`x`", n: 2}
    unit: us
    expect: {interval: [1, 3]}
    because: two is between one and three
    source: guess
"""

SPEAK = f"""
import os, pathlib
from orch_results import record
n = int(os.environ["ORCH_POINT_N"])
record("number", float(n * 1.25), "us", samples=[n * 1.2, n * 1.25, n * 1.3])
record("words", {SCRIPT!r})
record("gone", None, "us", status="error", note={SCRIPT + ESCAPES!r})
out = pathlib.Path("out")
out.mkdir(exist_ok=True)
(out / "<img src=x>.txt").write_text("x")
(out / "it's &lt;b.txt").write_text("x")
print({SCRIPT + ESCAPES!r})
"""

FAIL = f"""
import sys
sys.stdout.write("x" * 50_000_000 + "\\n")
print({SCRIPT + ESCAPES!r})
sys.exit(3)
"""


@pytest.fixture
def hostile(project: Project, molds: Molds) -> Path:
    """A run that tries to break whatever shows it: markup, escapes, a 50 MB line, bidi marks."""
    molds.pour("hostile", project, _run_hostile)
    return project.last_run


def _run_hostile(project: Project) -> None:
    project.write("hostile.ledger.yaml", LEDGER)
    project.write("speak.py", SPEAK)
    project.write("fail.py", FAIL)
    project.experiment(HOSTILE, "hostile.yaml")
    done = project.orch("run", "hostile.yaml", "--plain", "--no-preflight")
    assert done.code == 1, done.text
