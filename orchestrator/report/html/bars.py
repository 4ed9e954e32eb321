"""Bars: where a value lies in its tolerance, and how long things took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from orchestrator.report.html.svg import LETTER, WIDTH, shortened

MAX_NAME = 56


def bullet(distance: float | None, width: int = 120) -> Markup:
    """Where a value lies in its tolerance: the band in the middle, the value as a mark.

    `distance` is in tolerance widths; beyond three the mark stands at the edge as an arrow.
    """
    if distance is None:
        return Markup("")
    middle, unit = width / 2, width / 7
    shown = max(-3.2, min(3.2, distance))
    place = middle + shown * unit
    inside = abs(distance) <= 1
    mark = (
        Markup('<circle class="mark {c}" cx="{x:.1f}" cy="8" r="4"/>')
        if abs(distance) <= 3.2
        else Markup('<path class="mark {c}" d="M{x:.1f} 8 l{d} -5 v10 z"/>')
    ).format(c="in" if inside else "out", x=place, d=-7 if distance > 0 else 7)
    return Markup(
        '<svg class="bullet" viewBox="0 0 {w} 16" role="img" '
        'aria-label="{d:+.2f} tolerance widths from the centre">'
        '<line class="axis" x1="0" x2="{w}" y1="8" y2="8"/>'
        '<rect class="band" x="{b:.1f}" width="{u:.1f}" y="3" height="10" rx="2"/>'
        '<line class="centre" x1="{m}" x2="{m}" y1="3" y2="13"/>{mark}</svg>'
    ).format(w=width, d=distance, b=middle - unit, u=2 * unit, m=middle, mark=mark)


@dataclass(frozen=True)
class Bar:
    """One bar of a chart: its name, where it starts and how long it is, and how it looks."""

    name: str
    start: float
    length: float
    style: str
    label: str
    limit: float | None = None


def bar_chart(
    bars: Sequence[Bar], unit: str, title: str, *, span: float = 0.0, width: int = WIDTH
) -> Markup:
    """Horizontal bars one below the other: a timeline of steps, or the stages of a kernel.

    Charts of one `span` have one scale; a longer bar makes it longer. `width` is in pixels.
    """
    row = 36
    height = row * len(bars)
    end = max([bar.start + bar.length for bar in bars] + [span, 1e-9])
    scale = (width - LETTER * 11) / end
    parts = []
    for number, bar in enumerate(bars):
        top = number * row
        x = bar.start * scale
        length = max(bar.length * scale, 1.5)
        parts.append(
            Markup(
                '<text class="name" x="0" y="{ny}">{name}</text>'
                '<rect class="bar {style}" x="{x:.1f}" y="{y}" width="{w:.1f}" height="11" rx="2">'
                "<title>{label}</title></rect>"
                '<text class="value" x="{vx:.1f}" y="{ty}">{value:.4g} {unit}</text>'
            ).format(
                ny=top + 11,
                ty=top + 25,
                name=shortened(bar.name, MAX_NAME),
                style=bar.style,
                x=x,
                y=top + 16,
                w=length,
                label=bar.label,
                vx=x + length + 5,
                value=bar.length,
                unit=unit,
            )
        )
    return Markup(
        '<svg class="bars" viewBox="0 0 {w} {h}" role="img" aria-label="{t}">{b}</svg>'
    ).format(w=width, h=height, t=title, b=Markup("").join(parts))
