"""Small plots drawn on the server: no script needed to see them, and they print.

Every mark has a <title>, so that the value can be read; colours come from classes, so that light
and dark are the style sheet's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

WIDTH = 400
LETTER = 6.8
"""Width of a letter at 12 px: an upper bound for the digits and lower case of common fonts."""
_RIGHT, _TOP, _BOTTOM = 16, 14, 38
_TICK_TARGET = 5


@dataclass(frozen=True)
class Dot:
    """One measured block: where it stands, what it says, and which series it belongs to."""

    x: float
    y: float
    label: str
    series: int = 0
    hollow: bool = False


@dataclass(frozen=True)
class Band:
    """An expectation: from low to high at one x."""

    x: float
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class Plot:
    """A strip plot: every block a dot, series told apart by colour and shape."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, str]]
    dots: Sequence[Dot]
    bands: Sequence[Band] = ()
    lines: Sequence[tuple[int, Sequence[tuple[float, float]]]] = ()
    series: Sequence[str] = field(default_factory=tuple)


class Scale:
    """Numbers to pixels; logarithmic when the numbers span more than a factor of thirty."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = min(values), max(values)
        self.is_log = low > 0 and high / low > 30
        if self.is_log:
            low, high = math.log10(low), math.log10(high)
        span = (high - low) or abs(high) * 0.1 or 1.0
        self._low, self._high = low - 0.06 * span, high + 0.06 * span
        if not self.is_log and low >= 0 > self._low:
            self._low = 0.0
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        number = math.log10(value) if self.is_log else value
        share = (number - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    def ticks(self) -> list[float]:
        """Round numbers inside the scale."""
        if self.is_log:
            first, last = math.ceil(self._low), math.floor(self._high)
            powers = [10.0**n for n in range(first, last + 1)]
            return powers if len(powers) >= 2 else [10**self._low * 1.1, 10**self._high / 1.1]
        step = _round_step((self._high - self._low) / _TICK_TARGET)
        first = math.ceil(self._low / step)
        return [n * step for n in range(first, math.floor(self._high / step) + 1)]


def strip_plot(plot: Plot, height: int = 230) -> Markup:
    """The plot as one <svg>."""
    values = [dot.y for dot in plot.dots] + [v for b in plot.bands for v in (b.low, b.high)]
    y = Scale(values, height - _BOTTOM, _TOP)
    left = round(30 + LETTER * max(len(show_number(tick)) for tick in y.ticks()))
    x = _positions([tick for tick, _ in plot.x_ticks], left)
    parts = [_axes(plot, x, y, left, height)]
    parts += [_band(band, x, y) for band in plot.bands]
    parts += [_line(number, points, x, y) for number, points in plot.lines]
    parts += [_dot(dot, x, y) for dot in plot.dots]
    label = f"{plot.title}: {plot.y_label} over {plot.x_label}"
    return Markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{body}</svg>'
    ).format(w=WIDTH, h=height, label=label, body=Markup("").join(parts))


def show_number(value: float) -> str:
    """A tick's text: short, and without an exponent where that reads well."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.6g}"
    return f"{value:.1e}"


def shortened(text: str, most: int) -> str:
    """Text that fits; its middle goes first, since both ends tell more."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


# ---- parts


def _positions(ticks: Sequence[float], left: int) -> dict[float, float]:
    """X places: evenly spaced, since axes are settings and rarely lengths."""
    inner = WIDTH - left - _RIGHT
    count = max(len(ticks), 1)
    return {tick: left + inner * (n + 0.5) / count for n, tick in enumerate(ticks)}


def _axes(plot: Plot, x: dict[float, float], y: Scale, left: int, height: int) -> Markup:
    parts = []
    for tick in y.ticks():
        place = y(tick)
        parts.append(
            Markup(
                '<line class="grid" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>'
                '<text class="tick" x="{t}" y="{ty:.1f}" text-anchor="end">{text}</text>'
            ).format(
                a=left,
                b=WIDTH - _RIGHT,
                y=place,
                t=left - 6,
                ty=place + 4,
                text=show_number(tick),
            )
        )
    for tick, text in plot.x_ticks:
        parts.append(
            Markup(
                '<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{text}</text>'
            ).format(
                x=x[tick],
                y=height - 20,
                text=shortened(text, max(60 // max(len(plot.x_ticks), 1), 3)),
            )
        )
    parts.append(
        Markup(
            '<text class="label" x="{x}" y="{y}" text-anchor="middle">{text}</text>'
            '<text class="label" x="12" y="{m}" transform="rotate(-90 12 {m})" '
            'text-anchor="middle">{unit}</text>'
        ).format(
            x=WIDTH / 2,
            y=height - 4,
            text=plot.x_label,
            m=(height - _BOTTOM + _TOP) / 2,
            unit=plot.y_label + (" (log)" if y.is_log else ""),
        )
    )
    return Markup("").join(parts)


def _dot(dot: Dot, x: dict[float, float], y: Scale) -> Markup:
    style = f"dot s{dot.series % 8}{' hollow' if dot.hollow else ''}"
    cx, cy = x[dot.x], y(dot.y)
    shape = (
        Markup('<circle class="{s}" cx="{x:.1f}" cy="{y}" r="4.2">')
        if dot.series % 2 == 0
        else Markup('<rect class="{s}" x="{l:.1f}" y="{t:.1f}" width="7.6" height="7.6">')
    ).format(s=style, x=cx, y=cy, l=cx - 3.8, t=cy - 3.8)
    end = Markup("</circle>") if dot.series % 2 == 0 else Markup("</rect>")
    return shape + Markup("<title>{}</title>").format(dot.label) + end


def _band(band: Band, x: dict[float, float], y: Scale) -> Markup:
    top, bottom = y(band.high), y(band.low)
    return Markup(
        '<rect class="band" x="{x:.1f}" y="{t}" width="44" height="{h:.1f}" rx="2">'
        "<title>{label}</title></rect>"
    ).format(x=x[band.x] - 22, t=top, h=max(bottom - top, 1.5), label=band.label)


def _line(
    series: int, points: Sequence[tuple[float, float]], x: dict[float, float], y: Scale
) -> Markup:
    path = " ".join(f"{x[px]:.1f},{y(py)}" for px, py in points)
    return Markup('<polyline class="trend s{s}" points="{p}"/>').format(s=series % 8, p=path)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    for factor in (1, 2, 2.5, 5, 10):
        if factor * power >= rough:
            return factor * power
    return 10 * power
