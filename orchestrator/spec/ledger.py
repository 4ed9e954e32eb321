"""The ledger: values predicted before the run, each with its reason and its tolerance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from orchestrator.errors import SpecError
from orchestrator.spec import formula, ratios
from orchestrator.spec.document import Document
from orchestrator.spec.model import Model, in_file_order, validate
from orchestrator.spec.quantity import Fraction, Number, check_number, wrong
from orchestrator.spec.words import (
    AxisName,
    EntryId,
    ExperimentName,
    Flag,
    MetricName,
    ScalarValue,
    StepId,
    show_scalar,
)

_SOURCE = r"^(closed_form|datasheet|paper|guess|prior_run:[A-Za-z0-9._-]+)$"


def _source(value: Any) -> Any:
    if not isinstance(value, str) or not re.match(_SOURCE, value):
        expected = "closed_form, datasheet, paper, guess, or prior_run:<run-id>"
        raise wrong(f"`{value}` is not a source", expected)
    return value


Source = Annotated[
    str, BeforeValidator(_source), WithJsonSchema({"type": "string", "pattern": _SOURCE})
]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Bound = Number | None
_NARROWEST = 1e-300


class Reference(Model):
    """The denominator of a ratio: another entry, or a metric at a point."""

    entry: EntryId | None = None
    metric: MetricName | None = None
    step: StepId | None = None
    where: dict[AxisName, ScalarValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_them(self) -> Reference:
        if (self.entry is None) == (self.metric is None):
            raise wrong("the reference is not clear", "either `entry` or `metric`")
        return self


class Expect(Model):
    """One of value, interval, exact value and hash; with `ratio_to`, of the ratio to another."""

    value: ScalarValue = None
    """The centre, with `rel` or `abs`; or the exact value, with `exact: true`."""
    rel: Fraction | None = None
    """Relative tolerance, such as `5%`."""
    abs: Number | None = None
    """Absolute tolerance, in the unit of the entry."""
    interval: Annotated[tuple[Bound, ...], Field(min_length=2, max_length=2)] | None = None
    """`[low, high]`; an open side is `null`."""
    exact: Flag = False
    """No tolerance: the value must be equal, bit for bit."""
    hash: Digest | None = None
    """A hexadecimal sha1 or sha256."""
    ratio_to: Reference | None = None
    """Judge measured / reference instead of the measured value."""

    @property
    def kind(self) -> Literal["value", "interval", "exact", "hash"]:
        if self.hash is not None:
            return "hash"
        if self.interval is not None:
            return "interval"
        return "exact" if self.exact else "value"

    @property
    def width(self) -> float:
        """The tolerance around a value, in its unit."""
        assert isinstance(self.value, (int, float))
        return max(self.abs or 0.0, (self.rel or 0.0) * abs(self.value))

    @model_validator(mode="after")
    def _can_fail(self) -> Expect:
        """A rule that no result could break is not a prediction."""
        given = [name for name in ("value", "interval", "hash") if getattr(self, name) is not None]
        if len(given) != 1:
            what = "nothing is expected" if not given else f"{' and '.join(given)} are given"
            raise wrong(what, "exactly one of `value`, `interval` and `hash`")
        if self.kind == "value":
            self._check_tolerance()
        elif self.rel is not None or self.abs is not None:
            raise wrong(f"a tolerance beside `{self.kind}`", "no `rel` and no `abs` with it")
        if self.kind == "interval":
            self._check_interval()
        if self.exact and self.value is None:
            raise wrong("`exact` without a value", "`value: ...` beside `exact: true`")
        if self.ratio_to is not None and self.kind == "hash":
            raise wrong("a ratio of hashes", "`value` or `interval` beside `ratio_to`")
        if self.ratio_to is not None and isinstance(self.value, (str, bool)):
            raise wrong(
                f"a ratio is never `{show_scalar(self.value)}`",
                "a number beside `ratio_to`",
                "remove `ratio_to` to judge the value itself",
            )
        return self

    def _check_tolerance(self) -> None:
        if isinstance(self.value, (str, bool)):
            raise wrong(f"`{self.value}` is no number", "a number, or `exact: true` beside it")
        if self.rel is None and self.abs is None:
            raise wrong(
                "a value without a tolerance",
                "`rel: 5%`, `abs: 3` or `exact: true`",
            )
        if self.rel is not None and not 0 < self.rel < 1:
            raise wrong(
                f"`rel: {self.rel:g}` cannot fail" if self.rel >= 1 else "`rel` is not positive",
                "a fraction above 0 and below 1",
            )
        if self.abs is not None and not self.abs > 0:
            raise wrong("`abs` is not positive", "a tolerance above 0, or `exact: true`")
        check_number(self.value)
        if self.value == 0 and self.abs is None:
            raise wrong("`rel` of zero is no tolerance", "`abs` beside a value of 0")
        _check_width(self.width)

    def _check_interval(self) -> None:
        assert self.interval is not None
        low, high = self.interval
        if low is None and high is None:
            raise wrong("both sides are open: this cannot fail", "a bound on at least one side")
        if low is not None and low == high:
            raise wrong(
                f"the interval [{low:g}, {high:g}] is one value", "`value` and `exact: true`"
            )
        if low is not None and high is not None and low > high:
            raise wrong(f"the interval [{low:g}, {high:g}] is empty", "[low, high]", "swap the two")
        if low is not None and high is not None:
            _check_width(high - low)


def _check_width(width: float) -> None:
    """A distance is told in widths, and so near to zero there is none."""
    if width < _NARROWEST:
        what = f"the tolerance of {width:g} is narrower than what can be measured"
        raise wrong(what, f"at least {_NARROWEST:g}, or `exact: true`")


class Entry(Model):
    """One prediction."""

    id: EntryId
    """Stable, never reused for another prediction."""
    metric: MetricName | None = None
    """The recorded metric, or leave it out and give `compute`."""
    compute: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    """An expression over metrics recorded at the same point: `l0_fused - l0_gemm`."""
    step: StepId | None = None
    """The step that records it, where the metric alone does not say."""
    where: dict[AxisName, ScalarValue] = Field(default_factory=dict)
    """Axis values that name exactly one point."""
    unit: str = ""
    """UCUM unit of the expectation, such as `us`, `By`, `1`."""
    expect: Expect
    because: Annotated[str, StringConstraints(min_length=12)]
    """Why this value: the reason written before the run is what makes it a prediction."""
    source: Source
    """closed_form, datasheet, paper, guess, or prior_run:<run-id>."""
    decides: str = ""
    """What changes when it misses."""
    severity: Literal["blocker", "info"] = "blocker"
    """A blocker that misses fails the run; an info entry is only shown."""
    requires: dict[str, ScalarValue] = Field(default_factory=dict)
    """Conditions of the host under which the prediction holds, by their name in the snapshot."""

    @model_validator(mode="after")
    def _one_quantity(self) -> Entry:
        if (self.metric is None) == (self.compute is None):
            what = "no quantity is named" if self.metric is None else "two quantities are named"
            raise wrong(what, "either `metric` or `compute`")
        if self.compute is not None:
            try:
                formula.metrics(self.compute)
            except formula.FormulaError as error:
                raise wrong(str(error), "such as `l0_fused - l0_gemm`") from error
        return self


class Ledger(Model):
    """The whole file."""

    ledger: ExperimentName
    """The experiment whose results are predicted."""
    entries: Annotated[tuple[Entry, ...], Field(min_length=1)]


def read_ledger(document: Document) -> Ledger:
    """The ledger of a file.

    Raises:
        SpecError: the file is wrong, an id stands twice, or a ratio predicts nothing.
    """
    ledger = validate(Ledger, document)
    problems = []
    first: dict[str, int] = {}
    for index, entry in enumerate(ledger.entries):
        if entry.id in first:
            problems.append(
                document.problem(
                    ("entries", index, "id"),
                    f"the id `{entry.id}` stands twice",
                    "an id that is used once",
                    f"entries[{first[entry.id]}] has it too",
                )
            )
        first.setdefault(entry.id, index)
    problems += ratios.problems(ledger.entries, document)
    if problems:
        raise SpecError(in_file_order(problems))
    return ledger


def by_id(ledger: Ledger) -> Mapping[str, Entry]:
    return {entry.id: entry for entry in ledger.entries}
