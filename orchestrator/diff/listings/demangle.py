"""Names of C++ kernels as people write them."""

from __future__ import annotations

import re
from functools import lru_cache

_MANGLED = re.compile(r"_Z[A-Za-z0-9_.$]+")
# A longer name is kept as it is: reading it back takes a parser written in Python its time.
_MOST_CHARACTERS = 4000


def demangled(text: str) -> str:
    """A text with every mangled name in it read back; names that cannot be stay as they are."""
    return _MANGLED.sub(lambda match: _demangle(match[0]), text)


@lru_cache(maxsize=10_000)
def _demangle(name: str) -> str:
    if len(name) > _MOST_CHARACTERS:
        return name
    try:
        from itanium_demangler import parse
    except ModuleNotFoundError:
        return name
    try:
        found = parse(name)
        return name if found is None else str(found)
    except (RecursionError, NotImplementedError, ValueError, IndexError, TypeError, KeyError):
        return name
