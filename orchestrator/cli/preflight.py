"""`orch preflight`: the linter, with the options of the `preflight` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def preflight(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders.")] = None,
    select: Annotated[str, typer.Option(help="Only these rules, codes or groups.")] = "",
    ignore: Annotated[str, typer.Option(help="Leave these out.")] = "",
    profile: Annotated[str, typer.Option(help="regular, pedantic or auditor.")] = "",
    strict: Annotated[bool, typer.Option(help="Warnings fail too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply safe fixes.")] = False,
    unsafe_fixes: Annotated[
        bool, typer.Option("--unsafe-fixes", help="Apply fixes that need a review.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what fixes would change.")] = False,
    output_format: Annotated[
        str, typer.Option(help="full, concise, json, sarif or github.")
    ] = "full",
    explain: Annotated[str, typer.Option(help="Print the page of a rule.")] = "",
) -> None:
    """Find the mistakes that waste a GPU run, before the run."""
    from preflight.cli import main

    words = [str(path) for path in paths or []]
    for option, value in (
        ("--select", select),
        ("--ignore", ignore),
        ("--profile", profile),
        ("--output-format", output_format),
        ("--explain", explain),
    ):
        words += [f"{option}={value}"] if value else []
    for flag, on in (
        ("--strict", strict),
        ("--fix", fix),
        ("--unsafe-fixes", unsafe_fixes),
        ("--diff", diff),
    ):
        words += [flag] if on else []
    raise typer.Exit(main(words))
