"""The conditions of a run: what was true of the host, and how surely that is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import EvidenceError
from orchestrator.store.rundir import read_json
from orchestrator.verdict.recorded import equal

# What early agents called something else than it is; their evidence is read as it was meant.
_MEANT = {"numa.memory": "condition"}


@dataclass(frozen=True)
class Field:
    """One fact of the host. `value` means something only in the state `value`."""

    state: str
    value: Any = None
    unit: str = ""
    source: str = ""
    severity: str = "info"
    detail: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the host said something, if only that it has no such thing."""
        return self.state not in ("unknown", "error")


@dataclass(frozen=True)
class Conditions:
    """The snapshot before the run, and what had changed after it."""

    before: Mapping[str, Field] = field(default_factory=dict)
    after: Mapping[str, Field] = field(default_factory=dict)
    caches: str = ""

    def get(self, name: str) -> Field:
        """A fact by its dotted name, or by `caches`."""
        if name == "caches":
            return Field("value" if self.caches else "unknown", self.caches or None)
        return self.before.get(name, ABSENT)

    def unmet(self, required: Mapping[str, Any]) -> str:
        """Why a prediction that requires these facts does not apply; empty when it does."""
        for name, wanted in required.items():
            found = self.get(name)
            if found.state != "value":
                return f"`{name}` is {found.state.replace('_', ' ')}, required is `{wanted}`"
            if not equal(found.value, wanted):
                return f"`{name}` is `{found.value}`, required is `{wanted}`"
        return ""


ABSENT = Field("unknown", detail="not in the snapshot")


@dataclass(frozen=True)
class Drift:
    """A fact of identity that is not the same before and after a run: it compares with nothing."""

    name: str
    before: Field
    after: Field

    @property
    def moment(self) -> str:
        """What happened to it; what is not known any more may be the same all the while."""
        if not self.after.is_known:
            return "not known after the run"
        return "changed during the run" if self.before.is_known else "not known before the run"


def drifted(conditions: Conditions) -> Iterator[Drift]:
    """What was identity and is another, or not known, after the run."""
    for name, before in conditions.before.items():
        after = conditions.after.get(name)
        if before.severity != "identity" or after is None:
            continue
        if (before.state, before.value) != (after.state, after.value):
            yield Drift(name, before, after)


def differs(one: Field, other: Field, run_ids: tuple[str, str]) -> bool:
    """Whether a fact is another in two runs; what only one of them knows is another.

    A run's own id in a value, such as the path of its caches, makes no difference, nor does where
    the directory of runs lies.
    """
    values = [_without(run_id, f.value) for f, run_id in zip((one, other), run_ids, strict=True)]
    return (one.state, values[0], one.unit) != (other.state, values[1], other.unit)


def _without(run_id: str, value: Any) -> Any:
    if isinstance(value, str) and run_id:
        return re.sub(rf"[^\s:;,'\"]*{re.escape(run_id)}", "RUN", value)
    if isinstance(value, list):
        return [_without(run_id, item) for item in value]
    if isinstance(value, dict):
        return {key: _without(run_id, item) for key, item in value.items()}
    return value


def read(evidence: Path, caches: str) -> Conditions:
    """The conditions of a run; an absent snapshot leaves every fact unknown.

    Raises:
        EvidenceError: a snapshot is there and damaged.
    """
    return Conditions(
        _fields(evidence / "environment.before.json"),
        _fields(evidence / "environment.after.json"),
        caches,
    )


def _fields(path: Path) -> dict[str, Field]:
    if not path.exists():
        return {}
    document = read_json(path)
    try:
        assert isinstance(document, dict)
        return {
            name: Field(
                f["state"],
                f["value"],
                f.get("unit", ""),
                f.get("from", ""),
                _MEANT.get(name) or f.get("severity", "info"),
                f.get("detail") or "",
            )
            for name, f in document["fields"].items()
        }
    except (AssertionError, KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(f"{path} is not a snapshot of the environment") from error
