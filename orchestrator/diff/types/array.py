"""npy: header first, then the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import IO, Any

from numpy.lib import format as npy

from orchestrator.diff.blob import Blob
from orchestrator.diff.numeric import dtypes, stream
from orchestrator.diff.numeric.demand import Demand
from orchestrator.diff.numeric.stream import Stored
from orchestrator.diff.numeric.tensor import TensorDiff
from orchestrator.diff.pair import Pair, finite
from orchestrator.diff.record import Location, Record, Status
from orchestrator.diff.refusal import Unreadable
from orchestrator.spec.compare import CompareRule

# numpy's own stubs do not know the limit on the header's length.
_NPY: Any = npy
_HEADERS = {(1, 0): _NPY.read_array_header_1_0, (2, 0): _NPY.read_array_header_2_0}
_MOST_HEADER_CHARACTERS = 10_000


@dataclass(frozen=True)
class Facts:
    """What two stored tensors come to, for the record of a file or of one tensor in it."""

    status: Status
    metrics: dict[str, float]
    locations: list[Location]
    more: int
    note: str
    tolerance: str


def compare(pair: Pair) -> Record:
    """Compare two arrays; of another shape nothing more is compared."""
    pair.read(_look)
    with pair.a.open() as file_a, pair.b.open() as file_b:
        one, two = header(file_a, pair.a.size), header(file_b, pair.b.size)
        facts = compare_stored(one, two, pair.rule, pair.limits.locations)
    return record_of(pair, facts)


def check(pair: Pair) -> None:
    _look(pair.a)


def _look(blob: Blob) -> None:
    with blob.open() as file:
        header(file, blob.size)


def header(file: IO[bytes], size: int) -> Stored:
    """Read the header; the file then stands at the first element.

    Raises:
        Unreadable: no npy file, of Python objects, or of another length than its header says.
    """
    try:
        version = _NPY.read_magic(file)
        if version not in _HEADERS:
            raise Unreadable(f"is npy of version {version[0]}.{version[1]}, which is not read")
        shape, transposed, dtype = _HEADERS[version](file, max_header_size=_MOST_HEADER_CHARACTERS)
    except (ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
        raise Unreadable(f"is no npy file: {' '.join(str(error).split())[:160]}") from error
    if dtype.hasobject:
        raise Unreadable("holds Python objects, which are never loaded")
    if any(not isinstance(length, int) or length < 0 for length in shape):
        raise Unreadable(f"has the shape {shape}")
    expected = file.tell() + math.prod(shape) * dtype.itemsize
    if expected != size:
        raise Unreadable(f"has {size} bytes; its header says {expected}")
    return Stored(file, dtypes.of_numpy(dtype), tuple(shape), transposed)


def compare_stored(a: Stored, b: Stored, rule: CompareRule, most_locations: int) -> Facts:
    """Shape, element type, then elements."""
    demand = Demand.of(rule, a.dtype)
    if a.shape != b.shape:
        places = [Location("shape", a.words, b.words)]
        return Facts("different", {}, places, 0, f"{a.words} -> {b.words}", str(demand))
    found = stream.compare(a, b, rule, most_locations)
    if a.dtype.name == b.dtype.name:
        return _facts(found, found.status, [])
    places = [Location("dtype", a.dtype.name, b.dtype.name)]
    return _facts(found, "different", places)


def _facts(found: TensorDiff, status: Status, first: list[Location]) -> Facts:
    equal = status == "equal"
    return Facts(
        status,
        finite(found.metrics),
        [*first, *found.outside.locations],
        max(0, found.outside.count - len(found.outside.locations)),
        "the bytes differ, the values do not" if equal else "",
        str(found.demand),
    )


def record_of(pair: Pair, facts: Facts) -> Record:
    return pair.record(
        facts.status,
        metrics=facts.metrics,
        locations=facts.locations,
        more=facts.more,
        note=facts.note,
        tolerance=facts.tolerance,
    )
