"""What racecheck says of warp specialisation and of a hand-over through an mbarrier by themselves.

    compute-sanitizer --tool racecheck python -m kernels.moe.handover

Three kernels, each of one program: `empty` has partitions that share nothing; in `awaited` one
partition writes eight integers to shared memory, meets at its barrier and lets one thread arrive,
and the other waits before it reads, as `hopper.items.send` and `receive` do; `hasty` does not
wait. A tool that understood either would report `hasty` alone. Needs a GPU of sm_90.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kernels.backend import BACKEND, Backend

KINDS = ("empty", "awaited", "hasty")


def main(argv: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(
        prog="python -m kernels.moe.handover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args(argv)
    if BACKEND is not Backend.GPU:
        print(f"error: racecheck watches a GPU; the backend here is {BACKEND.value}")
        return 2
    import torch

    from kernels.moe.handover_kernel import hand_over

    right = True
    for number, kind in enumerate(KINDS):
        given = torch.arange(8, dtype=torch.int32, device="cuda")
        taken = torch.full_like(given, -1)
        print(f"{kind}:", flush=True)
        hand_over[(1,)](given, taken, number, num_warps=4)
        torch.cuda.synchronize()
        print(f"{kind} is done, read {taken.tolist()}", flush=True)
        right &= kind == "hasty" or torch.equal(given, taken)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
