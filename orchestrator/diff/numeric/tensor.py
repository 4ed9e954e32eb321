"""Two tensors of one shape, piece by piece: every distance that matters, in bounded memory.

Squares are summed over short stretches in the tensors' own precision and added up in float64. The
cosine is taken from |a|, |b| and |b - a|: for nearly equal tensors a sum of products would lose
every digit that matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orchestrator.diff.numeric.dtypes import Array, Dtype
from orchestrator.diff.numeric.tolerance import Tolerance
from orchestrator.diff.numeric.ulp import Histogram, distance
from orchestrator.diff.record import Location, Status
from orchestrator.spec.compare import CompareRule

# Elements of a piece: small enough for the processor's cache, large enough for numpy.
PIECE = 1 << 18
# Stretches whose squares are summed in single precision.
_STRETCH = 1024
_SHORTEST_ROW = 8
# Squares of smaller numbers leave the range of float32.
_SQUARE_SAFE = 1e-12
# float32 arithmetic errs by less; what lies closer to the edge is looked at in float64.
_EDGE = 1e-6


@dataclass(frozen=True)
class Demand:
    """What two tensors must keep to count as within: everything that is named."""

    elements: Tolerance | None
    rel_l2: float | None
    ulp: int | None
    nan_equal: bool

    @classmethod
    def of(cls, rule: CompareRule, dtype: Dtype) -> Demand:
        """The rule's demands, or the usual ones of the dtype where it makes none."""
        nan_equal = rule.nan == "equal"
        if rule.rel is None and rule.abs is None:
            usual = rule.rel_l2 is None and rule.ulp is None
            elements = Tolerance(dtype.rel, dtype.abs, nan_equal) if usual else None
        else:
            elements = Tolerance(rule.rel or 0.0, rule.abs or 0.0, nan_equal)
        ulp = rule.ulp if dtype.kind == "float" else None
        return cls(elements, rule.rel_l2, ulp, nan_equal)

    def __str__(self) -> str:
        parts = [str(self.elements) or "exact"] if self.elements else []
        parts += [f"rel_l2 {self.rel_l2:g}"] if self.rel_l2 is not None else []
        parts += [f"ulp {self.ulp}"] if self.ulp is not None else []
        return ", ".join(parts)


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
    outside: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    worst_row: float = 0.0
    worst_row_index: int | None = None
    nan_a: int = 0
    nan_b: int = 0
    inf_a: int = 0
    inf_b: int = 0
    special_mismatches: int = 0
    ulps: Histogram = field(default_factory=Histogram)
    locations: list[Location] = field(default_factory=list)
    _aa: float = 0.0
    _bb: float = 0.0
    _dd: float = 0.0

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
            self._outside(beyond, start, lambda at: _values(one, two, at))

    def _feed_opaque(self, a: Array, b: Array, start: int) -> None:
        width = self.dtype.item_bytes
        bytes_a, bytes_b = (side.view("u1").reshape(side.size, width) for side in (a, b))
        places = np.flatnonzero((bytes_a != bytes_b).any(axis=1))
        self.differing += places.size
        self._outside(places, start, lambda at: ("", "", None))

    def _feed_integers(self, a: Array, b: Array, unlike: Array, many: int, start: int) -> None:
        one, two = a.astype("f8"), b.astype("f8")
        self._aa += float(np.dot(one, one))
        self._bb += float(np.dot(two, two))
        if not many:
            return
        self.differing += many
        places = np.flatnonzero(unlike)
        # As unsigned integers even the ends of int64 are the right distance apart.
        x, y = a[places], b[places]
        steps = (np.maximum(x, y).astype("u8") - np.minimum(x, y).astype("u8")).astype("f8")
        self._dd += float(np.dot(steps, steps))
        self._largest(steps, np.abs(one[places]))
        beyond = places[self._judge(steps, np.abs(one[places]), one[places], two[places])]
        self._outside(beyond, start, lambda at: _values(a, b, at))

    def _feed_equal(self, values: Array, start: int) -> None:
        squares = self._squares(values)
        if not math.isfinite(squares) or 0 < squares < _SQUARE_SAFE:
            self._feed_floats(values, values, start)
            self.ulps.add_zeros(int(np.count_nonzero(np.isfinite(values))))
            return
        self._aa += squares
        self._bb += squares
        self.ulps.add_zeros(values.size)

    def _feed_floats(self, a: Array, b: Array, start: int) -> tuple[Array, bool]:
        """Take in floats; returns which finite ones are too far apart, and whether all are finite.

        What is not finite and not alike is counted at once.
        """
        specials = self.nan_a + self.nan_b + self.inf_a + self.inf_b
        with np.errstate(over="ignore", invalid="ignore"):
            apart = b - a
            rows = [self._row_squares(values) for values in (a, b, apart)]
        sums = [float(row.sum(dtype="f8")) for row in rows]
        if not all(map(math.isfinite, sums)) or min(sums[0], sums[2]) < _SQUARE_SAFE:
            a, b, apart, rows = self._carefully(a, b, start)
            sums = [float(row.sum(dtype="f8")) for row in rows]
        self._aa += sums[0]
        self._bb += sums[1]
        self._dd += sums[2]
        self._rows(rows[0], rows[2], start)
        sizes = np.abs(a)
        np.abs(apart, out=apart)
        self.differing += int(np.count_nonzero(apart))
        self._largest(apart, sizes)
        beyond = self._judge(apart, sizes, a, b)
        return beyond, specials == self.nan_a + self.nan_b + self.inf_a + self.inf_b

    def _carefully(self, a: Array, b: Array, start: int) -> tuple[Array, Array, Array, list[Array]]:
        """In float64, and with everything that is not finite counted apart and taken out."""
        a, b = a.astype("f8"), b.astype("f8")
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            nan_a, nan_b = np.isnan(a), np.isnan(b)
            self.nan_a += int(np.count_nonzero(nan_a))
            self.nan_b += int(np.count_nonzero(nan_b))
            self.inf_a += int(np.count_nonzero(np.isinf(a)))
            self.inf_b += int(np.count_nonzero(np.isinf(b)))
            alike = a == b
            if self.demand.nan_equal:
                alike |= nan_a & nan_b
            strange = np.flatnonzero(~finite & ~alike)
            self.special_mismatches += strange.size
            self.differing += strange.size
            before_a, before_b = a, b
            self._outside(strange, start, lambda at: _values(before_a, before_b, at))
            a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
        with np.errstate(over="ignore"):
            apart = b - a
            rows = [self._row_squares(values) for values in (a, b, apart)]
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

    # -- judging

    def _judge(self, apart: Array, sizes: Array, a: Array, b: Array) -> Array:
        """Which elements are outside the tolerance; what is close to its edge in float64."""
        wanted = self.demand.elements
        if wanted is None or not apart.size or float(apart.max()) <= wanted.abs * (1 - _EDGE):
            return np.empty(0, np.intp)
        kind = apart.dtype.type
        width = sizes * kind(wanted.rel)
        width += kind(wanted.abs)
        outside = apart > width * kind(1 - _EDGE)
        close = np.flatnonzero(outside & (apart <= width * kind(1 + _EDGE)))
        if close.size:
            one, two = a[close].astype("f8"), b[close].astype("f8")
            exact = apart[close] if self.dtype.kind == "integer" else np.abs(two - one)
            outside[close] = exact > wanted.abs + wanted.rel * np.abs(one)
        return np.flatnonzero(outside)

    def _outside(self, places: Array, start: int, tell: Any) -> None:
        self.outside += int(places.size)
        for place in places[: max(0, self.most_locations - len(self.locations))]:
            one, two, size = tell(int(place))
            self.locations.append(Location(self._index(start + int(place)), one, two, size))

    def _index(self, flat: int) -> str:
        if not self.shape:
            return "[]"
        index = [int(place) for place in np.unravel_index(flat, self.shape)]
        if self.turned:
            parts = index[len(index) :] if self.dtype.parts == 1 else index[-1:]
            index = index[: len(index) - len(parts)][::-1] + parts
        return f"[{', '.join(map(str, index))}]"

    # -- sums

    def _largest(self, apart: Array, sizes: Array) -> None:
        if not apart.size:
            return
        self.max_abs = max(self.max_abs, float(apart.max()))
        relative = np.maximum(sizes, apart.dtype.type(self.floor))
        with np.errstate(over="ignore"):
            np.divide(apart, relative, out=relative)
        self.max_rel = max(self.max_rel, float(relative.max()))

    def _squares(self, values: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self._row_squares(values).sum(dtype="f8"))

    def _row_squares(self, values: Array) -> Array:
        """Sums of squares of each row, or of stretches of a tensor that has none."""
        length = self.row or _STRETCH
        whole = values.size // length * length
        body = values[:whole].reshape(-1, length)
        sums: Array = np.einsum("ij,ij->i", body, body)
        rest = values[whole:]
        return np.append(sums, np.dot(rest, rest)) if rest.size else sums

    def _rows(self, aa: Array, dd: Array, start: int) -> None:
        if not self.row or not dd.any():
            return
        # A row of zeros has no relative distance; the elements' own distances speak for it.
        ratio = np.divide(dd, aa, out=np.zeros_like(dd), where=aa > 0)
        worst = int(ratio.argmax())
        distance_of_row = math.sqrt(float(ratio[worst]))
        if distance_of_row > self.worst_row:
            self.worst_row = distance_of_row
            self.worst_row_index = start // self.row + worst

    # -- the outcome

    @property
    def rel_l2(self) -> float:
        """|b - a| / |a|; infinite when a is zero and b is not."""
        if self._dd == 0:
            return 0.0
        return math.sqrt(self._dd / self._aa) if self._aa else math.inf

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both; NaN when one of them is zero."""
        if not self._aa or not self._bb:
            return math.nan
        norm_a, norm_b = math.sqrt(self._aa), math.sqrt(self._bb)
        apart = (self._dd - (norm_a - norm_b) ** 2) / (2 * norm_a * norm_b)
        return max(-1.0, min(1.0, 1 - apart))

    @property
    def status(self) -> Status:
        if self.outside or (self.demand.rel_l2 is not None and self.rel_l2 > self.demand.rel_l2):
            return "different"
        return "within" if self.differing else "equal"

    @property
    def metrics(self) -> dict[str, float]:
        """Named numbers; those that mean nothing for the dtype are left out."""
        found: dict[str, float] = {
            "elements": self.count,
            "differing": self.differing,
            "outside": self.outside,
            "outside_share": self.outside / self.count if self.count else 0.0,
        }
        if self.dtype.kind == "opaque":
            return found
        found |= {
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "rel_l2": self.rel_l2,
            "cosine": self.cosine,
        }
        if self.row:
            found["worst_row_rel_l2"] = self.worst_row
            if self.worst_row_index is not None:
                found["worst_row"] = self.worst_row_index
        if self.dtype.kind == "float":
            if self.dtype.has_ulp:
                found |= dict(self.ulps.metrics())
            specials = ("nan_a", "nan_b", "inf_a", "inf_b", "special_mismatches")
            found |= {name: getattr(self, name) for name in specials if getattr(self, name)}
        return found


def _values(a: Array, b: Array, at: int) -> tuple[str, str, float | None]:
    one, two = a[at].item(), b[at].item()
    apart = abs(two - one)
    return str(one), str(two), float(apart) if math.isfinite(apart) else None
