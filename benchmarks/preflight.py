"""How long the linter takes: 30,000 lines cold, a one-file commit; ruff and flake8 beside it.

    python benchmarks/preflight.py --corpus .venv/lib/python3.11/site-packages/torch

The corpus is copied until it has 30,000 lines of Python, so that all tools read the same files.
Each figure is the median of several fresh processes. Exit status 1 when a budget is broken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES = 30_000
COLD_BUDGET_S = 1.5
COMMIT_BUDGET_S = 0.35
TIMEOUT_S = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="a folder with Python files")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        lines, files = copy_corpus(arguments.corpus, project)
        print(f"{lines} lines in {files} files")
        return report(project, arguments.rounds)


def copy_corpus(corpus: Path, project: Path) -> tuple[int, int]:
    """Copy files in name order until there are enough lines."""
    lines = files = 0
    for file in sorted(corpus.rglob("*.py")):
        data = file.read_bytes()
        if lines >= LINES or len(data) > 300_000:
            continue
        target = project / "corpus" / file.relative_to(corpus)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        lines += data.count(b"\n")
        files += 1
    (project / "pyproject.toml").write_text("[tool.preflight]\n", "utf-8")
    return lines, files


def report(project: Path, rounds: int) -> int:
    ours = [sys.executable, "-m", "preflight", ".", "--output-format", "concise"]
    one = str(next(iter(sorted(project.rglob("*.py"))))).removeprefix(f"{project}/")
    commit = [sys.executable, "-m", "preflight", "--scope", "files", one]
    others = {
        "ruff check": [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--no-cache",
            "--isolated",
            "-q",
            ".",
        ],
        "flake8": [sys.executable, "-m", "flake8", "--isolated", "-j", "auto", "-q", "."],
    }

    cold = measure(ours, project, rounds, lambda: forget(project))
    warm = measure(ours, project, rounds)
    edited = measure(commit, project, rounds, lambda: touch(project / one))
    print(f"preflight, cold       {cold:.2f} s   (budget {COLD_BUDGET_S} s)")
    print(f"preflight, all cached {warm:.2f} s")
    print(f"preflight, one file   {edited:.2f} s   (budget {COMMIT_BUDGET_S} s)")
    for name, command in others.items():
        if not available(command):
            print(f"{name}: not installed, no ratio")
            continue
        theirs = measure(command, project, rounds)
        print(f"{name:21} {theirs:.2f} s   preflight takes {cold / theirs:.2f} times as long")
    return int(cold > COLD_BUDGET_S or edited > COMMIT_BUDGET_S)


def measure(
    command: list[str], project: Path, rounds: int, before: Callable[[], None] = lambda: None
) -> float:
    """Median wall time in seconds of a fresh process."""
    return statistics.median(_times(command, project, rounds, before))


def _times(
    command: list[str], project: Path, rounds: int, before: Callable[[], None]
) -> Iterator[float]:
    for _ in range(rounds):
        before()
        start = time.perf_counter()
        result = subprocess.run(
            command,
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        elapsed_s = time.perf_counter() - start
        if result.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr.decode()}")
        if "preflight" in command and b"preflight: " not in result.stdout:
            raise SystemExit(f"no report:\n{result.stderr.decode()}")
        yield elapsed_s


def available(command: list[str]) -> bool:
    probe = [*command[:3], "--version"]
    return (
        subprocess.run(probe, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0
    )


def forget(project: Path) -> None:
    shutil.rmtree(project / ".preflight_cache", ignore_errors=True)


def touch(file: Path) -> None:
    """Change the file's bytes, as an edit before a commit does."""
    file.write_bytes(file.read_bytes() + b"# edited\n")


if __name__ == "__main__":
    raise SystemExit(main())
