"""Where in a tensor two elements differ, and what stands there."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.diff.numeric.dtypes import Array
from orchestrator.diff.record import Location

_TEXT = re.compile(r"[<>|=]?[US]\d+")
_MOST_CHARACTERS = 200
_MOST_BYTES = 32

_PARTS = ("real", "imag")

# Both elements as text, and their distance; None where it is not finite.
Told = tuple[str, str, float | None]


@dataclass
class Outside:
    """The elements that do not keep the demand: how many, and what stands at the first of them.

    `shape`, `parts` and `turned` are those of `index_words`.
    """

    shape: tuple[int, ...]
    parts: int
    most_locations: int
    turned: bool
    count: int = 0
    locations: list[Location] = field(default_factory=list)

    def add(self, places: Array, start: int, tell: Callable[[int], Told]) -> None:
        """Take in places of a piece whose first element is `start`; `tell` says what is there."""
        self.count += int(places.size)
        for place in places[: max(0, self.most_locations - len(self.locations))]:
            one, two, size = tell(int(place))
            where = index_words(start + int(place), self.shape, self.parts, turned=self.turned)
            self.locations.append(Location(where, one, two, size))


def index_words(flat: int, shape: Sequence[int], parts: int, *, turned: bool) -> str:
    """The index of an element as its array has it: `[3, 0]`, `[3].imag` of a complex one.

    Args:
        flat: its number in the order in which the elements lie.
        shape: lengths of the axes in that order; `parts` above 1 are the last of them.
        turned: the axes of the array come in reverse; its parts stay last.
    """
    if not shape:
        return "[]"
    index = [int(place) for place in np.unravel_index(flat, tuple(shape))]
    part = f".{_PARTS[index.pop()]}" if parts > 1 else ""
    if turned:
        index = index[::-1]
    return f"[{', '.join(map(str, index))}]{part}"


def opaque_words(element: Array, name: str) -> str:
    """An element that is no number: its text where the type is one, else its bytes.

    Args:
        element: the bytes, uint8[width].
        name: the numpy name of the element type, such as `<U5`.
    """
    content = element.tobytes()
    if _TEXT.fullmatch(name):
        try:
            return repr(np.frombuffer(content, dtype=name)[0].item())[:_MOST_CHARACTERS]
        except (ValueError, UnicodeError):
            # Code points beyond all characters, which only a damaged file has.
            pass
    return f"0x{content[:_MOST_BYTES].hex()}"


def values_at(a: Array, b: Array, at: int) -> Told:
    """Both elements as text, and their distance; None where it is not finite."""
    one, two = a[at].item(), b[at].item()
    apart = abs(two - one)
    return str(one), str(two), float(apart) if math.isfinite(apart) else None
