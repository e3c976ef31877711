"""Draw charts as inline SVG, with escaped text.

CSS variables of the page set the colours. Titles and descriptions are for screen readers.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from rag_pipeline.evaluation.intervals import Summary

_WIDTH, _HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 12, 40
_COLOURS = 6

PALETTE = """\
--paper:#ffffff; --ink:#1c2430; --soft:#5b6675; --line:#d9dee6; --panel:#f5f7fa;
--s0:#1f6fd6; --s1:#c2570c; --s2:#0f8a5f; --s3:#8b3fc7; --s4:#b3286b; --s5:#6b7280;
--good:#0b7a4b; --bad:#b42318;"""
DARK_PALETTE = """\
--paper:#12161c; --ink:#e8ecf2; --soft:#9aa6b5; --line:#313a46; --panel:#1a2028;
--s0:#6aa9ff; --s1:#ff9d57; --s2:#4fd3a0; --s3:#c795ff; --s4:#ff86b5; --s5:#a3adba;
--good:#4fd3a0; --bad:#ff8a80;"""
STYLE = """\
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
svg .axis{stroke:var(--line);stroke-width:1}
svg .label{fill:var(--ink)}
svg .series{fill:none;stroke-width:2;stroke-linejoin:round}
svg .band{opacity:.13;stroke:none}
svg .whisker{stroke-width:1.5}
svg .front{fill:none;stroke:var(--soft);stroke-dasharray:4 4}"""


@dataclass(frozen=True, slots=True)
class Point:
    """A configuration in a scatter chart: its cost `x` and its quality `y` (0 to 1)."""

    name: str
    mark: str
    x: float
    y: Summary


def line_chart(title: str, series: Mapping[str, Mapping[int, Summary]], x_label: str) -> Markup:
    """Draw a line of means in percent over cutoffs for each series, with 95 % intervals as bands.

    Steps between cutoffs have equal widths.
    """
    cutoffs = sorted({k for curve in series.values() for k in curve})
    place = {k: _across(i, len(cutoffs) - 1) for i, k in enumerate(cutoffs)}
    parts = [*_axes(((place[k], str(k)) for k in cutoffs), x_label)]
    for number, curve in enumerate(series.values()):
        colour = f"var(--s{number % _COLOURS})"
        known = [(place[k], s) for k, s in sorted(curve.items()) if s.mean is not None]
        band = [(x, s) for x, s in known if s.low is not None and s.high is not None]
        upper = [f"{x:.1f},{_up(s.high or 0):.1f}" for x, s in band]
        lower = [f"{x:.1f},{_up(s.low or 0):.1f}" for x, s in reversed(band)]
        if band:
            points = " ".join(upper + lower)
            parts.append(f'<polygon class="band" fill="{colour}" points="{points}"/>')
        points = " ".join(f"{x:.1f},{_up(s.mean or 0):.1f}" for x, s in known)
        parts.append(f'<polyline class="series" stroke="{colour}" points="{points}"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{_up(s.mean or 0):.1f}" r="2.5" fill="{colour}"/>'
            for x, s in known
        ]
    names = "; ".join(series)
    return _svg(title, f"{title}: mean in percent against {x_label}, for {names}", parts)


def scatter(title: str, points: Sequence[Point], x_label: str) -> Markup:
    """Draw quality in percent against cost, with 95 % intervals and the Pareto front."""
    top = _round_up(max((p.x for p in points), default=0.0) or 1.0)
    parts = [*_axes(((_across(i, 4), f"{top * i / 4:g}") for i in range(5)), x_label)]
    front = pareto_front(points)
    line = " ".join(f"{_across(p.x, top):.1f},{_up(p.y.mean or 0):.1f}" for p in front)
    parts.append(f'<polyline class="front" points="{line}"/>')
    for point in sorted(points, key=lambda p: p in front):
        x, y = _across(point.x, top), _up(point.y.mean or 0)
        colour = "var(--s0)" if point in front else "var(--s5)"
        if point in front and point.y.low is not None and point.y.high is not None:
            low, high = _up(point.y.low), _up(point.y.high)
            parts.append(
                f'<line class="whisker" stroke="{colour}" x1="{x:.1f}" x2="{x:.1f}" '
                f'y1="{low:.1f}" y2="{high:.1f}"/>'
            )
        label = f"{point.name}: {100 * (point.y.mean or 0):.1f} %, {point.x:.3g}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}">'
            f"<title>{escape(label)}</title></circle>"
        )
        if point in front:
            parts.append(
                f'<text class="label" x="{x + 7:.1f}" y="{y - 6:.1f}">{escape(point.mark)}</text>'
            )
    names = ", ".join(p.name for p in front)
    return _svg(title, f"{title}: {len(points)} configurations; on the front: {names}", parts)


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no point of equal or lower cost beats, cheapest first."""
    front: list[Point] = []
    for point in sorted(points, key=lambda p: (p.x, -(p.y.mean or 0))):
        if not front or (point.y.mean or 0) > (front[-1].y.mean or 0):
            front.append(point)
    return front


def interval_strip(summary: Summary) -> Markup:
    """Draw a mean as a dot and its interval as a line, from 0 to 100 %, for a table cell.

    Without a mean, the drawing is empty.
    """
    if summary.mean is None:
        return Markup("")
    low = summary.mean if summary.low is None else summary.low
    high = summary.mean if summary.high is None else summary.high
    label = f"{100 * summary.mean:.1f} %, 95 % interval {100 * low:.0f} to {100 * high:.0f}"
    return Markup(
        f'<svg class="strip" viewBox="0 0 104 14" role="img" aria-label="{label}">'
        f'<line x1="2" x2="102" y1="7" y2="7" stroke="var(--line)"/>'
        f'<line x1="{2 + 100 * low:.1f}" x2="{2 + 100 * high:.1f}" y1="7" y2="7" '
        'stroke="var(--s0)" stroke-width="4" stroke-linecap="round" opacity=".45"/>'
        f'<circle cx="{2 + 100 * summary.mean:.1f}" cy="7" r="4" fill="var(--s0)"/></svg>'
    )


def standalone(chart: Markup) -> str:
    """Return a chart as the content of an SVG file, in light colours."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
    style = f"<style>svg{{{PALETTE} background:var(--paper)}}{STYLE}</style>"
    opening, closing, rest = str(chart).partition(">")
    return opening.replace("<svg ", head, 1) + closing + style + rest


def _svg(title: str, description: str, parts: Sequence[str]) -> Markup:
    name = re.sub(r"\W+", "-", title)
    return Markup(
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-labelledby="{name}-title {name}-text">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-text">{escape(description)}</desc>' + "".join(parts) + "</svg>"
    )


def _axes(ticks: Iterable[tuple[float, str]], x_label: str) -> Iterator[str]:
    """Yield the SVG of the grid in percent, and of the ticks and label of the x axis."""
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = _up(share)
        yield f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * share:.0f}</text>'
    for x, text in ticks:
        yield f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{text}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'


def _across(value: float, most: float) -> float:
    inner = _WIDTH - _LEFT - _RIGHT - 16
    return _LEFT + 8 + (inner * value / most if most else inner / 2)


def _up(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)


def _round_up(value: float) -> float:
    """Return the lowest number that is at least `value` and 1, 2, 4 or 8 times a power of ten."""
    scale = 10.0 ** math.floor(math.log10(value))
    return next((scale * step for step in (1, 2, 4, 8, 10) if scale * step >= value), value)
