"""Whether what one thread announces for many comes after all of them: read from PTX.

In a warp-specialised kernel one thread arrives at an mbarrier, or counts up with release, for its
whole partition. What the other threads read or wrote is covered only if they have met at a barrier
since, which the compiler is to see to. racecheck cannot tell (docs/kernels/moe-notes.md, 28); the
code can.
"""

from __future__ import annotations

import re

_BARRIER = re.compile(r"\bbar(rier)?\.sync\b")
# cp.async.mbarrier.arrive is every thread's own; expect_tx announces bytes and hands nothing over.
_ANNOUNCED = re.compile(
    r"(?<!cp\.async\.)\bmbarrier\.arrive(?!\.expect_tx)|\b(atom|red)\.[\w.]*\brelease\b"
)
_ACCESS = re.compile(
    r"\b(ld(?!\.param)|st|red|atom|ldmatrix|stmatrix)\."
    r"|\bcp\.async(?!\.mbarrier)|\bwgmma\.(mma_async|wait_group)|\bmbarrier\.try_wait"
)
# Where another path may join or leave, nothing is known of what was met before.
_JOINT = re.compile(r"^\$L__BB\w+:|\bbra\b")


def announcements(ptx: str) -> tuple[int, list[str]]:
    """How many arrivals and releases there are, and those that no barrier precedes at once.

    At once means: behind the last access to memory and the last branch before it. An arrival that
    every thread makes for itself would be counted as well; these kernels have none but cp.async's.
    """
    count, bare, met = 0, [], False
    for number, line in enumerate(ptx.splitlines(), 1):
        code = line.split("//")[0]
        if _ANNOUNCED.search(code):
            count += 1
            if not met:
                bare.append(f"line {number}: {code.strip()}")
        elif _BARRIER.search(code):
            met = True
        elif _ACCESS.search(code) or _JOINT.search(code):
            met = False
    return count, bare
