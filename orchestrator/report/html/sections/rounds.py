"""The predicted metrics over the rounds of the project, with what changed between rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from orchestrator.report.html.section import Section, render
from orchestrator.report.html.svg import Dot, Plot, strip_plot
from orchestrator.report.view import RunView
from orchestrator.report.words import show_value, show_where
from orchestrator.verdict.trend import Round, Trend

MAX_PLOTS = 8
MAX_SAMPLES = 100


@dataclass(frozen=True)
class Drawn:
    """A trend and its plot."""

    title: str
    plot: Markup
    rounds: Sequence[Round]
    unit: str


def section(view: RunView) -> Section | None:
    told = [t for t in view.trends if sum(r.value is not None for r in t.rounds) > 1]
    if not told:
        return None
    moving = sorted((t for t in told if _spread(t) > 0), key=_spread, reverse=True)
    body = render(
        "rounds.html.j2",
        drawn=[_drawn(trend) for trend in moving[:MAX_PLOTS]],
        hidden=max(len(moving) - MAX_PLOTS, 0),
        steady=[trend for trend in told if _spread(trend) == 0],
    )
    return Section("rounds", "Rounds", body, _next(told))


def _spread(trend: Trend) -> float:
    """How far apart the rounds lie, relative to the largest of them."""
    values = [one.value for one in trend.rounds if one.value is not None]
    most = max(map(abs, values))
    return (max(values) - min(values)) / most if most else 0.0


def _next(told: Sequence[Trend]) -> str:
    last = [trend.rounds[-1] for trend in told]
    if any(one.ratio is not None and any(c != "code" for c in one.changes) for one in last):
        return "more than the code changed since the last round: do not credit the code alone"
    return ""


def _drawn(trend: Trend) -> Drawn:
    dots = [
        Dot(float(number), sample, f"{one.run_id}: {show_value(sample, trend.unit)}")
        for number, one in enumerate(trend.rounds)
        if one.value is not None
        for sample in [*one.samples[:MAX_SAMPLES]] or [one.value]
    ]
    plot = Plot(
        title=trend.metric,
        x_label="round",
        y_label=f"{trend.metric} ({trend.unit})" if trend.unit not in ("", "1") else trend.metric,
        x_ticks=[
            (float(n), f"{n + 1}{'*' if one.changes else ''}") for n, one in enumerate(trend.rounds)
        ],
        dots=dots,
        lines=[
            (0, [(float(n), r.value) for n, r in enumerate(trend.rounds) if r.value is not None])
        ],
    )
    title = " ".join(filter(None, (trend.metric, show_where(trend.point))))
    return Drawn(title, strip_plot(plot), trend.rounds, trend.unit)
