"""`orch preflight`: the linter, with the options of the `preflight` command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def run(paths: Sequence[Path], options: Mapping[str, str], flags: Mapping[str, bool]) -> int:
    """Pass the command line on; returns the linter's exit code: 0 clean, 1 findings, 2 error."""
    from preflight.cli import main

    words = [str(path) for path in paths]
    words += [f"{option}={value}" for option, value in options.items() if value]
    words += [flag for flag, on in flags.items() if on]
    return main(words)
