"""Build every kernel for a target and compare what it needs with the ledger. Needs no GPU.

    python -m kernels.gate.check --target sm_90
    python -m kernels.gate.check --target gfx942 --write     # after a change that was meant

Exits 1 when a kernel needs more than recorded (8 registers are forgiven), spills more, or lost its
matrix instructions or bulk copies; and, recorded or not, where one thread announces something for
others that have not met at a barrier since they touched memory. It proves that the kernels compile
to the intended code, not that they run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.gate.target import Resources

LEDGER = Path(__file__).with_name("ledger.json")
FORGIVEN_REGISTERS = 8


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    os.environ["KERNELS_BACKEND"] = "compile_only"  # before any kernel is imported
    import triton

    from kernels.gate.builds import builds
    from kernels.gate.target import aim_at, resources

    aim_at(args.target)
    ledger = json.loads(LEDGER.read_text("utf-8"))
    recorded = ledger.get(args.target, {})
    if recorded.get("triton", triton.__version__) != triton.__version__ and not args.write:
        print(f"error: recorded with triton {recorded['triton']}, this is {triton.__version__}")
        return 2
    built = {}
    problems = []
    for name, build in builds(args.target):
        if args.only and not name.startswith(args.only):
            continue
        needs = resources(build())
        built[name] = {key: value for key, value in asdict(needs).items() if key != "unmet"}
        old = recorded.get("kernels", {}).get(name)
        found = list(unmet(name, needs))
        found += [] if args.write else differences(name, needs, old)
        problems += found
        print(f"{'NO' if found else 'ok'} {name:<24} {needs}")
    if not built:
        print(f"error: no kernel for {args.target} has a name that begins with {args.only}")
        return 2
    if args.write and not problems:
        kernels = recorded.get("kernels", {}) | built if args.only else built
        ledger[args.target] = {"triton": triton.__version__, "kernels": kernels}
        try:
            LEDGER.write_text(json.dumps(ledger, indent=1, sort_keys=True) + "\n", "utf-8")
        except OSError as error:
            print(f"error: {LEDGER} cannot be written: {error.strerror}")
            return 2
        print(f"wrote {len(built)} kernels to {LEDGER.name}")
        return 0
    for problem in problems:
        print(f"error: {problem}")
    return 1 if problems else 0


def differences(name: str, needs: Resources, recorded: dict[str, Any] | None) -> Iterator[str]:
    """What a kernel needs beyond its record, or lost."""
    if recorded is None:
        yield f"{name} is not in {LEDGER.name}; if it is meant to be there, run with --write"
        return
    allowed = recorded["registers"] + FORGIVEN_REGISTERS
    if needs.registers > allowed:
        yield f"{name} needs {needs.registers} registers, recorded {recorded['registers']}"
    if needs.spilled > recorded["spilled"]:
        yield f"{name} spills {needs.spilled}, recorded {recorded['spilled']}"
    if needs.shared_bytes > recorded["shared_bytes"]:
        yield f"{name} needs {needs.shared_bytes} bytes shared, recorded {recorded['shared_bytes']}"
    if set(needs.matrix) != set(recorded["matrix"]):
        yield f"{name} multiplies with {needs.matrix}, recorded {recorded['matrix']}"
    if needs.bulk_copies < recorded["bulk_copies"]:
        yield f"{name} has {needs.bulk_copies} bulk copies, recorded {recorded['bulk_copies']}"
    if recorded["async_copies"] and not needs.async_copies:
        yield f"{name} lost its asynchronous copies"
    if needs.announced < recorded["announced"]:
        yield f"{name} announces {needs.announced} times, recorded {recorded['announced']}"


def unmet(name: str, needs: Resources) -> Iterator[str]:
    """Announcements of one thread for others that may not have come so far."""
    for place in needs.unmet:
        yield f"{name}: one thread announces for many that have not met at a barrier: {place}"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.gate.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--target", choices=["sm_90", "gfx942"], required=True)
    parser.add_argument("--only", help="kernels whose name begins so", default="")
    parser.add_argument("--write", action="store_true", help="record what was built")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
