"""Two runs, bundles, directories or files, side by side: the whole result, in the order of reading.

Conditions first, because they decide what the rest is worth; then code, then what ended otherwise,
then metrics, then artifacts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.diff import artifacts as artifact_diffs
from orchestrator.diff import code as code_diff
from orchestrator.diff import conditions as condition_diff
from orchestrator.diff import jobs as job_diff
from orchestrator.diff import limits
from orchestrator.diff.code import CodeDiff
from orchestrator.diff.conditions import ConditionDiff
from orchestrator.diff.confined import Confined
from orchestrator.diff.jobs import Ended
from orchestrator.diff.limits import Limits
from orchestrator.diff.measures import points
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.diff.record import SETTLED, Record
from orchestrator.diff.sides import evidence
from orchestrator.diff.sides.evidence import Evidence
from orchestrator.diff.sides.resolve import resolve
from orchestrator.diff.sides.side import Side
from orchestrator.spec.compare import CompareRule
from orchestrator.store.rundir import RunDir

# Of metrics, what a reader cannot take for agreement; the ratio of a measured time is shown and,
# until there is a verdict, not judged.
_DIFFERENT_METRICS = frozenset({"different", "only_a", "only_b"})
_OPEN_METRICS = frozenset({"not_comparable", "no_value", "ambiguous"})
_DIFFERENT_ARTIFACTS = frozenset({"different", "only_a", "only_b"})


@dataclass(frozen=True)
class Named:
    """A side as it is shown."""

    name: str
    kind: str
    run_id: str = ""
    host: str = ""
    experiment: str = ""

    @classmethod
    def of(cls, side: Side, known: Evidence) -> Named:
        record = known.record
        return cls(
            side.name,
            side.kind,
            known.run_id,
            record.host if record else "",
            record.experiment if record else "",
        )

    def as_json(self) -> dict[str, str]:
        return {key: value for key, value in vars(self).items() if value}


@dataclass(frozen=True)
class Comparison:
    """Everything `orch diff` found. `conditions` and `code` are None unless both sides are runs."""

    a: Named
    b: Named
    conditions: ConditionDiff | None = None
    code: CodeDiff | None = None
    ended: tuple[Ended, ...] = ()
    metrics: tuple[MetricDiff, ...] = ()
    artifacts: tuple[Record, ...] = ()
    ignored: int = 0
    problems: tuple[str, ...] = field(default=())

    @property
    def unlike_experiments(self) -> str:
        """That these are runs of two experiments, where both are known; what is told first."""
        one, two = self.a.experiment, self.b.experiment
        if not one or not two or one == two:
            return ""
        return f"two experiments: A is a run of `{one}`, B of `{two}`"

    @property
    def all_problems(self) -> tuple[str, ...]:
        """Everything that makes less of the comparison, what is told first coming first."""
        return tuple(filter(None, (self.unlike_experiments, *self.problems)))

    @property
    def artifact_counts(self) -> Mapping[str, int]:
        return Counter(record.status for record in self.artifacts)

    @property
    def metric_counts(self) -> Mapping[str, int]:
        return Counter(metric.outcome for metric in self.metrics)

    @property
    def exit_code(self) -> int:
        """What `--exit-code` returns.

        1 something differs; 3 something could not be read, was skipped or is not comparable, and
        nothing is known to differ; 0 everything was compared and is equal or within tolerance.
        """
        statuses, outcomes = set(self.artifact_counts), set(self.metric_counts)
        if statuses & _DIFFERENT_ARTIFACTS or outcomes & _DIFFERENT_METRICS or self.ended:
            return 1
        unsettled = statuses - SETTLED or outcomes & _OPEN_METRICS or self.all_problems
        nothing = not self.artifacts and not self.metrics
        return 3 if unsettled or nothing else 0

    def as_json(self) -> dict[str, Any]:
        """The result for programs, as JSON that every reader takes: no NaN, no infinity."""
        shown: dict[str, Any] = {
            "schema": 1,
            "a": self.a.as_json(),
            "b": self.b.as_json(),
            "exit_code": self.exit_code,
            "conditions": self.conditions.as_json() if self.conditions else None,
            "code": self.code.as_json() if self.code else None,
            "ended": [ended.as_json() for ended in self.ended],
            "metrics": [metric.as_json() for metric in self.metrics],
            "artifact_counts": dict(self.artifact_counts),
            "artifacts": [record.as_json() for record in self.artifacts],
            "ignored": self.ignored,
            "problems": list(self.all_problems),
        }
        return {key: _portable(value) for key, value in shown.items()}


def compare(
    name_a: str, name_b: str, runs: Path, *, only: str = "", bounds: Limits = limits.DEFAULT
) -> Comparison:
    """Compare what two names stand for.

    Args:
        runs: the directory of the project's runs, where ids are looked up.
        only: a glob over the paths of artifacts; others are left out.
        bounds: what one pair of artifacts may take.

    Raises:
        InputError: nothing answers to a name, or `only` fits nothing.
        EvidenceError: a side is damaged, or a run is not home.
    """
    with Confined(bounds) as confined:
        a, b = (resolve(name, runs, confined.scratch) for name in (name_a, name_b))
        known_a = evidence.gather(a, confined.scratch / "a")
        known_b = evidence.gather(b, confined.scratch / "b")
        both_runs = known_a.is_run and known_b.is_run
        is_run = known_a.is_run or known_b.is_run
        rules, rule_problems = _rules(known_a, known_b)
        conditions = _conditions(known_a, known_b) if both_runs else None
        found = artifact_diffs.compare(
            a,
            b,
            rules,
            confined,
            is_artifact=evidence.is_artifact if is_run else lambda path: True,
            only=only,
        )
    return Comparison(
        a=Named.of(a, known_a),
        b=Named.of(b, known_b),
        conditions=conditions,
        code=code_diff.compare(known_a.tree, known_b.tree) if both_runs else None,
        ended=_ended(known_a, known_b) if both_runs else (),
        metrics=_metrics(known_a, known_b, conditions) if both_runs else (),
        artifacts=found.records,
        ignored=found.ignored,
        problems=(*_problems("A", known_a), *_problems("B", known_b), *rule_problems),
    )


def between_runs(a: RunDir, b: RunDir, *, bounds: Limits = limits.DEFAULT) -> Comparison:
    """Two runs that are home; A is what B is held against.

    The `compare:` rules are those of the experiments, and what they ignore is left out.

    Raises:
        EvidenceError: a run is damaged, or not home.
    """
    return compare(str(a.path), str(b.path), a.path.parent, bounds=bounds)


def _portable(value: Any) -> Any:
    """The host's own values may hold numbers that JSON has no spelling for; as text they stay."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _portable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(inner) for inner in value]
    return value


def _conditions(a: Evidence, b: Evidence) -> ConditionDiff:
    return condition_diff.compare(a.conditions, b.conditions, a.run_id, b.run_id)


def _metrics(a: Evidence, b: Evidence, conditions: ConditionDiff | None) -> tuple[MetricDiff, ...]:
    obstacle = conditions.obstacle if conditions else ""
    return tuple(points.compare(a.results.found, b.results.found, obstacle))


def _ended(a: Evidence, b: Evidence) -> tuple[Ended, ...]:
    return job_diff.compare(a.history, b.history, a.items, b.items)


def _rules(a: Evidence, b: Evidence) -> tuple[tuple[CompareRule, ...], tuple[str, ...]]:
    """The rules of B, the newer run as people type it; of A where B has none."""
    if a.rules and b.rules and a.rules != b.rules:
        return b.rules, ("the `compare:` rules of both experiments differ; those of B hold",)
    return b.rules or a.rules, ()


def _problems(side: str, known: Evidence) -> tuple[str, ...]:
    return tuple(f"{side}: {problem}" for problem in known.problems)
