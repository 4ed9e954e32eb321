"""What a run is held against: conditions, code, outcomes and metrics of another run, to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from orchestrator.diff.comparison import Comparison
from orchestrator.diff.conditions import Change
from orchestrator.diff.measures.points import MetricDiff
from orchestrator.report.diffing.circumstances import by_size, field_text
from orchestrator.report.diffing.metrics import classes_of, level_text, ratio_text
from orchestrator.report.html.section import Section, templates
from orchestrator.report.words import show_where

MOST_METRICS = 400


@dataclass(frozen=True)
class Row:
    """A fact or a metric on both sides, as text."""

    name: str
    a: str
    b: str
    status: str = ""
    where: str = ""
    by: str = ""
    note: str = ""


def section(found: Comparison) -> Section:
    """The other run beside this one; what differs in artifacts is asked about elsewhere."""
    conditions = found.conditions
    assert conditions is not None, "both sides are runs"
    assert found.code is not None
    body = (
        templates("orchestrator.review")
        .get_template("against.html.j2")
        .render(
            a=found.a,
            b=found.b,
            obstacle=conditions.obstacle,
            identity=[_change(change) for change in conditions.identity],
            state=[_change(change) for change in sorted(conditions.state, key=by_size)],
            same=conditions.same,
            code=found.code,
            ended=found.ended,
            metrics=[_metric(metric) for metric in found.metrics[:MOST_METRICS]],
            hidden=max(len(found.metrics) - MOST_METRICS, 0),
            problems=found.all_problems,
        )
    )
    title = f"Against {found.a.run_id}"
    return Section("against", title, Markup(body), _next(found.metrics))  # noqa: S704 - autoescaped


def _change(change: Change) -> Row:
    by = "" if change.delta is None else f"{change.delta:+.1%}"
    return Row(change.name, field_text(change.a).plain, field_text(change.b).plain, by=by)


def _metric(metric: MetricDiff) -> Row:
    found = metric.contrast
    where = f"{metric.step}[{show_where(metric.point)}]" if metric.point else metric.step
    return Row(
        name=metric.metric,
        a=level_text(found.a, found.unit).plain,
        b=level_text(found.b, found.unit).plain,
        status=metric.outcome,
        where=where,
        by="" if found.ratio is None else ratio_text(found.ratio),
        note=found.reason or classes_of(found.a, found.b),
    )


def _next(metrics: Sequence[MetricDiff]) -> str:
    if any(metric.outcome == "not_comparable" for metric in metrics):
        return "run both on one host under the same conditions before a ratio is believed"
    if any(metric.outcome == "too_few" for metric in metrics):
        return "give the step `rounds: 8`: with fewer blocks a ratio is shown and not judged"
    return ""
