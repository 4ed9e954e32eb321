"""One line of the verdict, and what it may say: hit, miss, missing, not comparable, new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

HIT, MISS, MISSING = "hit", "miss", "missing"
NOT_COMPARABLE, NEW = "not_comparable", "new"
# Worst first: the order in which people read them.
ORDER = (MISS, MISSING, NOT_COMPARABLE, HIT, NEW)


@dataclass(frozen=True)
class Item:
    """One line of the verdict.

    `distance` is signed and in tolerance widths: within ±1 is a hit, 0 is the centre. It is None
    where there is nothing to measure a distance with. `bounds` are the ends of what counts as a
    hit, in `unit`, None where a side is open; they bound the ratio where one was expected.
    """

    id: str
    status: str
    metric: str
    where: Mapping[str, Any]
    measured: Any = None
    unit: str = ""
    expected: str = ""
    bounds: tuple[float | None, float | None] | None = None
    is_ratio: bool = False
    distance: float | None = None
    reason: str = ""
    severity: str = "info"
    because: str = ""
    decides: str = ""
    count: int = 0
    step: str = ""

    @property
    def is_predicted(self) -> bool:
        """Whether an entry speaks of it: every entry expects something."""
        return bool(self.expected)

    def as_json(self) -> dict[str, Any]:
        told = {key: value for key, value in asdict(self).items() if value not in ("", None)}
        if not self.is_ratio:
            told.pop("is_ratio")
        return told
