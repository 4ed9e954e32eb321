"""`preflight barriers`: the inventory of barrier ids and signals, as a table or as JSON to diff."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from preflight.checking import has_device_code
from preflight.config import Config, find_root, load_config
from preflight.discover import discover
from preflight.inventory import KernelRow, inventory
from preflight.syntax.cuda import CudaFile

SCHEMA = "preflight/barriers-v1"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "preflight barriers",
        description="List each kernel's barrier ids and thread counts, and its system-scope "
        "writes.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders [.]")
    parser.add_argument("--output-format", choices=["table", "json"], default="table")
    arguments = parser.parse_args(argv)
    paths = arguments.paths or [Path()]
    config = load_config(find_root(paths[0]))
    rows = barrier_rows(paths, config)
    sys.stdout.write(to_json(rows) if arguments.output_format == "json" else to_table(rows))
    return 0


def barrier_rows(paths: list[Path], config: Config) -> list[KernelRow]:
    """Rows of all CUDA files below the paths, in path and file order."""
    found = []
    for target in discover(paths, config):
        if target.language == "cuda":
            data = target.absolute.read_bytes()
            if has_device_code(data):
                file = CudaFile(target.path, data, macros=config.cuda_macros)
                found += [row for _, row in inventory(file)]
    return found


def to_json(rows: list[KernelRow]) -> str:
    return json.dumps({"schema": SCHEMA, "kernels": [asdict(row) for row in rows]}, indent=2) + "\n"


def to_table(rows: list[KernelRow]) -> str:
    if not rows:
        return "preflight: no barriers and no system-scope writes found\n"
    lines = []
    for row in rows:
        kind = "kernel" if row.is_kernel else "device function"
        doubt = "" if row.clean else "  (did not parse cleanly: incomplete)"
        lines.append(f"{row.path}:{row.line}: {row.kernel} ({kind}){doubt}")
        lines += [
            f"  barrier {u.id:>4}  {u.threads:>12} threads  {u.uses} uses" for u in row.barriers
        ]
        lines += [f"  signal  {opcode}  {count} uses" for opcode, count in row.signals]
        free = _free_ids(row)
        if free:
            lines.append(f"  idle ids: {free}")
    return "\n".join(lines) + "\n"


def _free_ids(row: KernelRow) -> str:
    """Ids no literal use names; nothing when an id is symbolic and may be any of them."""
    used = {use.id for use in row.barriers}
    if not used or not all(word.isdigit() for word in used):
        return ""
    return ", ".join(str(n) for n in range(16) if str(n) not in used)
