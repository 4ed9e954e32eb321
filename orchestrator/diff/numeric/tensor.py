"""Two tensors of one shape, piece by piece: every distance that matters, in bounded memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from orchestrator.diff.numeric.demand import Demand
from orchestrator.diff.numeric.dtypes import Array, Dtype
from orchestrator.diff.numeric.norms import Norms
from orchestrator.diff.numeric.places import Outside, opaque_words, values_at
from orchestrator.diff.numeric.specials import Specials
from orchestrator.diff.numeric.ulp import Histogram, distance
from orchestrator.diff.record import Status

# Elements of a piece: small enough for the processor's cache, large enough for numpy.
PIECE = 1 << 18
_SHORTEST_ROW = 8
# Squares of smaller numbers leave the range of float32.
_SQUARE_SAFE = 1e-12


@dataclass
class TensorDiff:
    """Gathers what differs between two tensors while their elements come by, in order.

    `shape` is that of the elements as fed: complex numbers have one axis more.
    """

    dtype: Dtype
    shape: tuple[int, ...]
    demand: Demand
    most_locations: int = 10
    turned: bool = False
    """Whether the axes come in reverse; places are told in their own order all the same."""
    count: int = 0
    differing: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    specials: Specials = field(default_factory=Specials)
    ulps: Histogram = field(default_factory=Histogram)
    norms: Norms = field(init=False)
    outside: Outside = field(init=False)

    def __post_init__(self) -> None:
        self.norms = Norms(self.row)
        self.outside = Outside(self.shape, self.dtype.parts, self.most_locations, self.turned)

    @property
    def row(self) -> int:
        """Elements of a row (the last axis), or 0 where rows say nothing or are too long."""
        if len(self.shape) < 2 or not _SHORTEST_ROW <= self.shape[-1] <= PIECE:
            return 0
        return self.shape[-1]

    @property
    def piece(self) -> int:
        """How many elements to feed at once: whole rows."""
        return PIECE // self.row * self.row if self.row else PIECE

    @property
    def floor(self) -> float:
        """What a relative difference is at least taken against: close to 0 it would say nothing."""
        elements = self.demand.elements
        return max(elements.abs if elements else self.dtype.abs, self.dtype.tiny) or 1.0

    # -- feeding

    def feed(self, a: Array, b: Array) -> None:
        """Take in the next elements of both sides, as they lie in the files."""
        # Overflow and NaN are what the careful way below looks for; a warning adds nothing.
        with np.errstate(all="ignore"):
            self._feed(a, b)

    def _feed(self, a: Array, b: Array) -> None:
        start = self.count
        self.count += a.size
        if self.dtype.kind == "opaque":
            self._feed_opaque(a, b, start)
            return
        bits_a, bits_b = self.dtype.bits(a), self.dtype.bits(b)
        unlike = bits_a != bits_b
        many = int(np.count_nonzero(unlike))
        if self.dtype.kind == "integer":
            self._feed_integers(a, b, unlike, many, start)
        elif many == 0:
            self._feed_equal(self.dtype.floats(a), start)
        else:
            one, two = self.dtype.floats(a), self.dtype.floats(b)
            beyond, all_finite = self._feed_floats(one, two, start)
            if self.dtype.has_ulp:
                chosen = self._chosen_for_ulps(one, two, unlike, many, all_finite)
                far = self._feed_ulps(bits_a, bits_b, chosen)
                beyond = np.union1d(beyond, far) if far.size else beyond
            self.outside.add(beyond, start, lambda at: values_at(one, two, at))

    def _feed_opaque(self, a: Array, b: Array, start: int) -> None:
        width = self.dtype.item_bytes
        bytes_a, bytes_b = (side.view("u1").reshape(side.size, width) for side in (a, b))
        places = np.flatnonzero((bytes_a != bytes_b).any(axis=1))
        self.differing += places.size
        name = self.dtype.name
        self.outside.add(
            places,
            start,
            lambda at: (opaque_words(bytes_a[at], name), opaque_words(bytes_b[at], name), None),
        )

    def _feed_integers(self, a: Array, b: Array, unlike: Array, many: int, start: int) -> None:
        one, two = a.astype("f8"), b.astype("f8")
        self.norms.add(float(np.dot(one, one)), float(np.dot(two, two)), 0.0)
        if not many:
            return
        self.differing += many
        places = np.flatnonzero(unlike)
        # As unsigned integers even the ends of int64 are the right distance apart.
        x, y = a[places], b[places]
        steps = (np.maximum(x, y).astype("u8") - np.minimum(x, y).astype("u8")).astype("f8")
        self.norms.add(0.0, 0.0, float(np.dot(steps, steps)))
        self._largest(steps, np.abs(one[places]))
        beyond = places[self._beyond(steps, np.abs(one[places]), one[places], two[places])]
        self.outside.add(beyond, start, lambda at: values_at(a, b, at))

    def _feed_equal(self, values: Array, start: int) -> None:
        squares = self.norms.squares(values)
        if not math.isfinite(squares) or 0 < squares < _SQUARE_SAFE:
            self._feed_floats(values, values, start)
            self.ulps.add_zeros(int(np.count_nonzero(np.isfinite(values))))
            return
        self.norms.add(squares, squares, 0.0)
        self.ulps.add_zeros(values.size)

    def _feed_floats(self, a: Array, b: Array, start: int) -> tuple[Array, bool]:
        """Take in floats; returns which finite ones are too far apart, and whether all are finite.

        What is not finite and not alike is counted at once.
        """
        specials = self.specials.count
        apart = b - a
        rows = [self.norms.row_squares(values) for values in (a, b, apart)]
        sums = [float(row.sum(dtype="f8")) for row in rows]
        if not all(map(math.isfinite, sums)) or min(sums[0], sums[2]) < _SQUARE_SAFE:
            a, b, apart, rows = self._carefully(a, b, start)
            sums = [float(row.sum(dtype="f8")) for row in rows]
        self.norms.add(*sums)
        self.norms.rows(rows[0], rows[2], start)
        sizes = np.abs(a)
        np.abs(apart, out=apart)
        self.differing += int(np.count_nonzero(apart))
        self._largest(apart, sizes)
        beyond = self._beyond(apart, sizes, a, b)
        return beyond, specials == self.specials.count

    def _carefully(self, a: Array, b: Array, start: int) -> tuple[Array, Array, Array, list[Array]]:
        """In float64, and with everything that is not finite counted apart and taken out."""
        a, b = a.astype("f8"), b.astype("f8")
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            strange = self.specials.add(a, b, finite, nan_equal=self.demand.nan_equal)
            self.differing += strange.size
            before_a, before_b = a, b
            self.outside.add(strange, start, lambda at: values_at(before_a, before_b, at))
            a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
        apart = b - a
        rows = [self.norms.row_squares(values) for values in (a, b, apart)]
        return a, b, apart, rows

    def _chosen_for_ulps(
        self, a: Array, b: Array, unlike: Array, many: int, all_finite: bool
    ) -> Array:
        """The elements whose distance is worked out; the others are counted as 0 or, if not
        finite, not at all."""
        # Where nearly everything differs, leaving the rest out costs more than it saves.
        chosen = np.ones_like(unlike) if 2 * many >= unlike.size else unlike
        left_out = ~chosen
        if not all_finite:
            finite = np.isfinite(a) & np.isfinite(b)
            left_out &= finite
            chosen = chosen & finite
        self.ulps.add_zeros(int(np.count_nonzero(left_out)))
        return chosen

    def _feed_ulps(self, bits_a: Array, bits_b: Array, chosen: Array) -> Array:
        """Take in distances in ulp; returns the places where they are more than allowed."""
        places = None
        if not chosen.all():
            places = np.flatnonzero(chosen)
            bits_a, bits_b = bits_a[places], bits_b[places]
        apart = distance(bits_a, bits_b, self.dtype.sign_bit)
        self.ulps.add(apart)
        if self.demand.ulp is None or self.demand.ulp > np.iinfo(apart.dtype).max:
            return np.empty(0, np.intp)
        over = np.flatnonzero(apart > apart.dtype.type(self.demand.ulp))
        return over if places is None else places[over]

    # -- distances

    def _beyond(self, apart: Array, sizes: Array, a: Array, b: Array) -> Array:
        exact = self.dtype.kind == "integer"
        return self.demand.outside(apart, sizes, a, b, apart_is_exact=exact)

    def _largest(self, apart: Array, sizes: Array) -> None:
        if not apart.size:
            return
        self.max_abs = max(self.max_abs, float(apart.max()))
        relative = np.maximum(sizes, apart.dtype.type(self.floor))
        np.divide(apart, relative, out=relative)
        self.max_rel = max(self.max_rel, float(relative.max()))

    # -- the outcome

    @property
    def status(self) -> Status:
        if self.outside.count or (
            self.demand.rel_l2 is not None and self.norms.rel_l2 > self.demand.rel_l2
        ):
            return "different"
        return "within" if self.differing else "equal"

    @property
    def metrics(self) -> dict[str, float]:
        """Named numbers; those that mean nothing for the dtype are left out."""
        found: dict[str, float] = {
            "elements": self.count,
            "differing": self.differing,
            "outside": self.outside.count,
            "outside_share": self.outside.count / self.count if self.count else 0.0,
        }
        if self.dtype.kind == "opaque":
            return found
        found |= {
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "rel_l2": self.norms.rel_l2,
            "cosine": self.norms.cosine,
        }
        if self.row:
            found["worst_row_rel_l2"] = self.norms.worst_row
            if self.norms.worst_row_index is not None:
                found["worst_row"] = self.norms.worst_row_index
        if self.dtype.kind == "float":
            if self.dtype.has_ulp:
                found |= dict(self.ulps.metrics())
            found |= dict(self.specials.metrics())
        return found
