"""`preflight config`: every setting with its value and where it comes from."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from preflight.config import Config, find_root, load_config


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("preflight config", description="Show the settings in force.")
    parser.add_argument("--show-origin", action="store_true", help="say where each value is set")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a pyproject.toml [nearest]")
    arguments = parser.parse_args(argv)
    config = load_config(find_root(arguments.config or Path()), arguments.config)
    sys.stdout.write(describe(config, arguments.show_origin))
    return 0


def describe(config: Config, show_origin: bool) -> str:
    lines = []
    for field in fields(Config):
        if field.name == "origins":
            continue
        key = field.name.replace("_", "-")
        value = getattr(config, field.name)
        shown = value.word if hasattr(value, "word") else value
        origin = f"  # {config.origins.get(field.name, 'default')}" if show_origin else ""
        lines.append(f"{key} = {shown!s}{origin}")
    return "\n".join(lines) + "\n"
