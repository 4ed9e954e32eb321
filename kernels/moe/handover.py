"""What racecheck says of warp specialisation and of a hand-over through an mbarrier by themselves.

    compute-sanitizer --tool racecheck python -m kernels.moe.handover --meet-twice

Kernels of two partitions: `empty` shares nothing; in `awaited` one partition writes eight integers
to shared memory, meets at its barrier and arrives with every thread, and the other waits before it
reads, as `hopper.items.send` and `receive` do; in `spoken_for` one thread arrives for all; `hasty`
does not wait. A tool that understood everything would report `hasty` alone. Needs a GPU of sm_90.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kernels.backend import BACKEND, Backend
from kernels.moe.arguments import add_meet_twice

# In the order of the numbers that the kernel knows them by.
KINDS = ("empty", "awaited", "spoken_for", "hasty")
# Programs a launch: what a race detector sees depends on how warps happen to run.
PROGRAMS = 64


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    if BACKEND is not Backend.GPU:
        print(f"error: racecheck watches a GPU; the backend here is {BACKEND.value}")
        return 2
    import torch

    arch = torch.cuda.get_device_capability()
    if torch.version.cuda is None or arch[0] != 9:
        print(f"error: these kernels are for sm_90; this GPU is {torch.cuda.get_device_name()}")
        return 2
    from kernels.moe.handover_kernel import hand_over

    if args.meet_twice:
        from kernels.racecheck import meet_twice

        meet_twice()
    right = True
    for kind in args.kinds:
        given = torch.arange(8, dtype=torch.int32, device="cuda")
        taken = torch.full_like(given, -1)
        print(f"{kind}:", flush=True)
        hand_over[(PROGRAMS,)](given, taken, KINDS.index(kind), num_warps=4)
        torch.cuda.synchronize()
        print(f"{kind} is done, read {taken.tolist()}", flush=True)
        right &= kind == "hasty" or torch.equal(given, taken)
    return 0 if right else 1


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.moe.handover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=KINDS,
        metavar="KIND",
        help=f"any of {' '.join(KINDS)}",
    )
    add_meet_twice(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
