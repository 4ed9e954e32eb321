"""What two tensors must keep to count as within, and which elements do not keep it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestrator.diff.numeric.dtypes import Array, Dtype
from orchestrator.diff.numeric.tolerance import Tolerance
from orchestrator.spec.compare import CompareRule

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

    def outside(
        self, apart: Array, sizes: Array, a: Array, b: Array, *, apart_is_exact: bool
    ) -> Array:
        """Places of the elements outside the tolerance; what is close to its edge in float64.

        Args:
            apart, sizes: |b - a| and |a|, of any precision.
            apart_is_exact: `apart` has no rounding in it, as of whole numbers.
        """
        wanted = self.elements
        if wanted is None or not apart.size or float(apart.max()) <= wanted.abs * (1 - _EDGE):
            return np.empty(0, np.intp)
        kind = apart.dtype.type
        width = sizes * kind(wanted.rel)
        width += kind(wanted.abs)
        outside = apart > width * kind(1 - _EDGE)
        close = np.flatnonzero(outside & (apart <= width * kind(1 + _EDGE)))
        if close.size:
            one, two = a[close].astype("f8"), b[close].astype("f8")
            exact = apart[close] if apart_is_exact else np.abs(two - one)
            outside[close] = exact > wanted.abs + wanted.rel * np.abs(one)
        return np.flatnonzero(outside)
