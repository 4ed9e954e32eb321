"""safetensors: header and metadata first, then tensor by tensor.

The header is read and checked by the `safetensors` library (lengths, overlaps, holes); the
elements are read here, piece by piece, because numpy has no bfloat16 and no 8-bit floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from orchestrator.diff.blob import Blob, open_plain
from orchestrator.diff.numeric.dtypes import BY_NAME, Dtype, of_numpy
from orchestrator.diff.numeric.stream import Stored
from orchestrator.diff.pair import Pair
from orchestrator.diff.record import Location, Record
from orchestrator.diff.refusal import Unreadable
from orchestrator.diff.types import collection

_DTYPES: dict[str, Dtype] = {
    "BOOL": of_numpy(np.dtype("?")),
    **{f"U{8 * n}": of_numpy(np.dtype(f"<u{n}")) for n in (1, 2, 4, 8)},
    **{f"I{8 * n}": of_numpy(np.dtype(f"<i{n}")) for n in (1, 2, 4, 8)},
    **{f"F{8 * n}": of_numpy(np.dtype(f"<f{n}")) for n in (2, 4, 8)},
    "C64": BY_NAME["complex64"],
    "BF16": BY_NAME["bfloat16"],
    "F8_E4M3": BY_NAME["float8_e4m3fn"],
    "F8_E4M3FNUZ": BY_NAME["float8_e4m3fnuz"],
    "F8_E5M2": BY_NAME["float8_e5m2"],
    "F8_E5M2FNUZ": BY_NAME["float8_e5m2fnuz"],
    "F8_E8M0": BY_NAME["float8_e8m0fnu"],
}


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in its file."""

    dtype: Dtype
    shape: tuple[int, ...]
    offset: int


def compare(pair: Pair) -> Record:
    """Compare two files tensor by tensor."""
    a, b = pair.read(read)
    metadata = [
        Location(f"metadata {key}", a[0].get(key, ""), b[0].get(key, ""))
        for key in sorted({*a[0], *b[0]})
        if a[0].get(key) != b[0].get(key)
    ]
    return collection.compare(pair, a[1], b[1], metadata)


def check(pair: Pair) -> None:
    read(pair.a)


def read(blob: Blob) -> tuple[dict[str, str], dict[str, collection.Opener]]:
    """The metadata and the tensors of a file.

    Raises:
        Unreadable: the header is damaged, or the file is shorter or longer than it says.
    """
    path = blob.on_disk()
    with open_plain(path) as file:
        start = 8 + int.from_bytes(file.read(8), "little")
    try:
        with safe_open(str(path), framework="numpy") as opened:
            metadata = dict(opened.metadata() or {})
            # In this order the tensors lie one behind the other, without a gap.
            slices = [(name, opened.get_slice(name)) for name in opened.offset_keys()]
            listed = [(name, s.get_dtype(), tuple(s.get_shape())) for name, s in slices]
    except (SafetensorError, OSError, ValueError, OverflowError) as error:
        raise Unreadable(f"is no safetensors file: {' '.join(str(error).split())}") from error
    places = {}
    for name, kind, shape in listed:
        dtype = _DTYPES.get(kind)
        if dtype is None:
            raise Unreadable(f"`{name}` is of the type {kind}, which is not read")
        places[name] = Place(dtype, shape, start)
        start += math.prod(shape) * dtype.item_bytes
    return metadata, {name: partial(_open, path, place) for name, place in sorted(places.items())}


@contextmanager
def _open(path: Path, place: Place) -> Iterator[Stored]:
    with open_plain(path) as file:
        file.seek(place.offset)
        yield Stored(file, place.dtype, place.shape)
