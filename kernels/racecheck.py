"""Warp specialisation as racecheck can follow it: the barriers of all warps, each met twice.

Triton starts and ends the partitions of a kernel through a byte a warp in shared memory and
`barrier.sync 1`, which the warps reach at two places of the program. racecheck of CUDA 13.0
reports the accesses on the two sides of one such barrier, in a kernel that does nothing
else too. Met twice in a row, it is followed: what is ordered is silent then, what is not is still
reported (docs/kernels/moe-notes.md, 28). A second meeting orders nothing that the first did not.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from typing import Any

from triton import knobs

# Barrier 1 is Triton's own, of all warps; a partition's barriers are 0 and from 2 on.
_MEETING = re.compile(r"^([ \t]*barrier\.sync[ \t]+1;)", re.MULTILINE)


def met_twice(ptx: str) -> str:
    """The same PTX with every barrier of all warps doubled; unchanged where there is none."""
    return _MEETING.sub(r"\1\n\1", ptx)


def meet_twice() -> None:
    """Compile so in this process from now on, into a cache of its own that ends with it.

    Triton's cache does not know of the change, so it may neither give nor keep such a kernel.
    """
    apart = tempfile.mkdtemp(prefix="met-twice-")
    atexit.register(shutil.rmtree, apart, ignore_errors=True)
    knobs.cache.dir = apart
    knobs.runtime.add_stages_inspection_hook = _double


def _double(backend: Any, stages: dict[str, Any], options: Any, language: Any, arch: Any) -> None:
    make = stages.get("ptx")
    if make is None:  # another vendor's kernel, which has no such barrier
        return
    stages["ptx"] = lambda source, metadata: met_twice(make(source, metadata))
