"""How the laptop deflates what it sends: quickly where the link is fast, well where it is slow.

Both write the same format, which the host's standard library inflates. Of 75 MB of source code
`quickly` makes 20 MB in 0.2 s of one core, zlib at level 3 makes 19 MB in 1.2 s.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

_fast: Callable[[bytes, int], bytes] | None
try:
    from isal import isal_zlib
except ImportError:  # no wheel for this processor
    _fast = None
else:
    _fast = isal_zlib.compress


def quickly(payload: bytes) -> bytes:
    """As small as it gets without making a fast link wait."""
    return _fast(payload, 2) if _fast else zlib.compress(payload, 3)


def well(payload: bytes) -> bytes:
    """A sixth smaller for many times the work."""
    return zlib.compress(payload, 6)
