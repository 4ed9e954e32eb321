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
_UPRIGHT_SLOT, _UPRIGHT_LETTERS = 13, 16
_WIDEST_LETTER = 7.6


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
    """An expectation: from low to high at one x, edged in the colour of the series it is for."""

    x: float
    low: float
    high: float
    label: str
    series: int = 0


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
    """The plot as one <svg>; names of settings that need more room make it higher."""
    values = [dot.y for dot in plot.dots] + [v for b in plot.bands for v in (b.low, b.high)]
    y = Scale(values, height - _BOTTOM, _TOP)
    left = round(30 + LETTER * max(len(show_number(tick)) for tick in y.ticks()))
    x = _positions([tick for tick, _ in plot.x_ticks], left)
    slot = (WIDTH - left - _RIGHT) / max(len(plot.x_ticks), 1)
    names, room = _setting_names(plot.x_ticks, x, slot, height - _BOTTOM)
    parts = [_axes(plot, y, left, height + room), names]
    parts += [_band(band, x, y, min(44.0, 0.8 * slot)) for band in plot.bands]
    parts += [_line(number, points, x, y) for number, points in plot.lines]
    parts += [_dot(dot, x, y) for dot in plot.dots]
    label = f"{plot.title}: {plot.y_label} over {plot.x_label}"
    return Markup(
        '<svg class="plot" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">{body}</svg>'
    ).format(w=WIDTH, h=height + room, label=label, body=Markup("").join(parts))


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


def _setting_names(
    ticks: Sequence[tuple[float, str]], x: dict[float, float], slot: float, bottom: int
) -> tuple[Markup, int]:
    """The names below the x axis, and how much higher than usual the plot is because of them.

    They stand level where each fits into its slot, else upright, and only every so many where even
    that is too close.
    """
    longest = LETTER * max((len(text) for _, text in ticks), default=0)
    if longest <= slot - 4:
        parts = [_level_name(x[tick], bottom + 18, text) for tick, text in ticks]
        return Markup("").join(parts), 0
    every = math.ceil(_UPRIGHT_SLOT / slot)
    shown = [(tick, text) for n, (tick, text) in enumerate(ticks) if n % every == 0]
    parts = [_upright_name(x[tick] + 4, bottom + 8, text) for tick, text in shown]
    letters = max(min(len(text), _UPRIGHT_LETTERS) for _, text in shown)
    return Markup("").join(parts), max(round(_WIDEST_LETTER * letters) - 6, 0)


def _level_name(x: float, y: float, text: str) -> Markup:
    return Markup(
        '<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{text}</text>'
    ).format(x=x, y=y, text=text)


def _upright_name(x: float, y: float, text: str) -> Markup:
    return Markup(
        '<text class="tick" x="{x:.1f}" y="{y}" text-anchor="end" '
        'transform="rotate(-90 {x:.1f} {y})">{text}<title>{whole}</title></text>'
    ).format(x=x, y=y, text=shortened(text, _UPRIGHT_LETTERS), whole=text)


def _axes(plot: Plot, y: Scale, left: int, height: int) -> Markup:
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
    parts.append(
        Markup(
            '<text class="label" x="{x}" y="{y}" text-anchor="middle">{text}</text>'
            '<text class="label" x="12" y="{m}" transform="rotate(-90 12 {m})" '
            'text-anchor="middle">{unit}</text>'
        ).format(
            x=WIDTH / 2,
            y=height - 4,
            text=plot.x_label,
            m=(y(y.ticks()[0]) + _TOP) / 2,
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


def _band(band: Band, x: dict[float, float], y: Scale, width: float) -> Markup:
    top, bottom = y(band.high), y(band.low)
    return Markup(
        '<rect class="band s{s}" x="{x:.1f}" y="{t}" width="{w:.1f}" height="{h:.1f}" rx="2">'
        "<title>{label}</title></rect>"
    ).format(
        s=band.series % 8,
        x=x[band.x] - width / 2,
        t=top,
        w=width,
        h=max(bottom - top, 1.5),
        label=band.label,
    )


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
