"""Make the figures of the report, with their numbers for the tables below them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from markupsafe import Markup

from rag_pipeline.evaluation.scores import answer_metrics
from rag_pipeline.evaluation.slices import ContextPart, Slice
from rag_pipeline.evaluation.stage_effects import StageEffect
from rag_pipeline.evaluation.summary import UNMEASURED, Summary
from rag_pipeline.report.charts import Point, line_chart, scatter
from rag_pipeline.report.content import Content, K, presence_curve

_K_LABEL = "first k chunks (not to scale beyond 10)"
_MAX_CURVES = 5
Of = TypeVar("Of", Slice, ContextPart)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title, its note, and the numbers for the table below it."""

    title: str
    note: str
    svg: Markup
    series: Mapping[str, Mapping[int, Summary]]


@dataclass(frozen=True, slots=True)
class QualityLine:
    """A metric of `focus` and of the baseline; `share` is True for values in percent."""

    metric: str
    definition: str
    own: Summary
    baseline: Summary
    share: bool


@dataclass(frozen=True, slots=True)
class PriceFigure:
    """A scatter chart of quality against cost; without points, `note` gives the reason."""

    title: str
    note: str
    unit: str
    svg: Markup
    points: Sequence[Point]


def measured(content: Content, metric: str) -> bool:
    """Return whether any configuration has a value for the metric."""
    return any(row.summary(metric).n for row in content.rows)


def presence_figures(content: Content) -> list[Figure]:
    """Return the curves of the served, the baseline and the best configurations."""
    names = [row.name for row in content.rows]
    chosen = [n for n in (content.focus, content.baseline) if n is not None]
    chosen = list(dict.fromkeys([*chosen, *names]))[:_MAX_CURVES]
    curves = {r.name: presence_curve(r) for r in content.rows}
    shown = {name: curves[name] for name in chosen if curves[name][K].n}
    if not shown:
        return []
    counts = sorted({curve[K].n for curve in shown.values()})
    more = f" {len(shown)} of {len(names)} configurations." if len(shown) < len(names) else ""
    title = "Answer Presence@k"
    note = f"In percent, 95 % bands, {_n(counts)}.{more}"
    return [Figure(title, note, line_chart(title, shown, _K_LABEL), shown)]


def stage_figure(effect: StageEffect) -> Figure:
    """Return the curves of a stage's variants."""
    counts = sorted({curve[K].n for curve in effect.curves.values()})
    title = f"Answer Presence@k by {effect.stage}"
    plural = "" if effect.matched == 1 else "s"
    note = (
        f"In percent, 95 % bands, {_n(counts)}; each curve is the mean of {effect.matched} matched "
        f"configuration{plural}."
    )
    return Figure(title, note, line_chart(title, effect.curves, _K_LABEL), effect.curves)


def _n(counts: Sequence[int]) -> str:
    low, high = counts[0], counts[-1]
    return f"n = {low} queries" if low == high else f"n = {low} to {high} queries"


def quality_lines(content: Content) -> list[QualityLine]:
    """Return the measured metrics of answers and contexts, for `focus` and the baseline."""
    if content.focus is None:
        return []
    rows = {row.name: row for row in content.rows}
    focus, base = rows[content.focus], rows.get(content.baseline or content.focus)
    found = []
    for metric in answer_metrics():
        own = focus.summary(metric.name)
        if own.n:
            share = metric.is_share and (own.high or own.mean or 0.0) <= 1
            held = base.summary(metric.name) if base else UNMEASURED
            found.append(QualityLine(metric.name, metric.definition, own, held, share))
    return found


def price_figures(content: Content) -> list[PriceFigure]:
    """Return charts of quality against latency, cost per search and total cost."""
    latencies = {row.name: row.latency_ms for row in content.rows}
    asking = {
        row.name: None if row.usd_per_query is None else 1_000 * row.usd_per_query
        for row in content.rows
    }
    costs = {row.name: row.costs.usd if row.costs.is_known else None for row in content.rows}
    return [
        _price(content, "Latency", latencies, "median milliseconds a query", "milliseconds"),
        _price(content, "Cost per query", asking, "US dollars for 1,000 searches", "US dollars"),
        _price(content, "Cost so far", costs, "US dollars spent on calls so far", "US dollars"),
    ]


def _price(
    content: Content, title: str, prices: Mapping[str, float | None], what: str, unit: str
) -> PriceFigure:
    title = f"{title} against quality"
    points = [
        Point(row.name, str(rank), price, row.summary(content.metric))
        for rank, row in enumerate(content.rows, 1)
        if (price := prices[row.name]) is not None and row.summary(content.metric).n
    ]
    if not points:
        return PriceFigure(title, "Not measured.", unit, Markup(""), [])
    if not any(point.x for point in points):
        return PriceFigure(title, f"{what[0].upper()}{what[1:]}: none.", unit, Markup(""), [])
    counts = sorted({point.y.n for point in points})
    note = (
        f"{content.metric} in percent against {what}; {_n(counts)}, {len(points)} configurations."
    )
    return PriceFigure(title, note, unit, scatter(title, points, unit), points)


def by_kind(parts: Sequence[Of]) -> dict[str, list[Of]]:
    """Group slices of queries or contexts by kind, keeping their order."""
    found: dict[str, list[Of]] = {}
    for member in parts:
        found.setdefault(member.kind, []).append(member)
    return found
