"""Make the figures of the report, with the numbers of the table below each figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from rag_pipeline.errors import counted
from rag_pipeline.evaluation.intervals import UNMEASURED, Summary
from rag_pipeline.evaluation.metrics import Metric
from rag_pipeline.evaluation.scores import answer_metrics
from rag_pipeline.evaluation.stage_effects import CUTOFFS, StageEffect
from rag_pipeline.report.charts import Point, line_chart, scatter
from rag_pipeline.report.content import Content, K

_K_LABEL = "first k chunks (not to scale beyond 10)"
_MAX_CURVES = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title, its note, and the numbers for the table below the chart.

    A line chart has `series` over cutoffs. A scatter chart has `points` with x in `unit`. Without
    points, `note` has the reason.
    """

    title: str
    note: str
    svg: Markup
    series: Mapping[str, Mapping[int, Summary]] = field(default_factory=dict)
    points: Sequence[Point] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class QualityLine:
    """A metric's means for `focus` and the baseline. If `share` is True, they are percentages."""

    metric: Metric[Any]
    own: Summary
    baseline: Summary
    share: bool


def measured(content: Content, metric: str) -> bool:
    """Return whether any configuration has a value for the metric."""
    return any(row.summary(metric).n for row in content.board.configurations)


def presence_figures(content: Content) -> list[Figure]:
    """Return a figure with the curves of `focus`, the baseline and the best configurations.

    Return [] if none of these has a value of Answer Presence@k.
    """
    curves = {
        row.name: {k: row.summary(f"AnswerPresence@{k}") for k in CUTOFFS}
        for row in content.board.configurations
    }
    first = [name for name in (content.focus, content.baseline) if name is not None]
    chosen = list(dict.fromkeys([*first, *curves]))[:_MAX_CURVES]
    shown = {name: curves[name] for name in chosen if curves[name][K].n}
    if not shown:
        return []
    counts = sorted({curve[K].n for curve in shown.values()})
    more = f" {len(shown)} of {len(curves)} configurations." if len(shown) < len(curves) else ""
    title = "Answer Presence@k"
    note = f"In percent, 95 % bands, {_n(counts)}.{more}"
    return [Figure(title, note, line_chart(title, shown, _K_LABEL), shown)]


def stage_figure(effect: StageEffect) -> Figure:
    """Return a figure with a curve for each variant of a stage."""
    counts = sorted({curve[K].n for curve in effect.curves.values()})
    title = f"Answer Presence@k by {effect.stage}"
    members = counted(effect.matched, "matched configuration")
    note = f"In percent, 95 % bands, {_n(counts)}; each curve is the mean of {members}."
    return Figure(title, note, line_chart(title, effect.curves, _K_LABEL), effect.curves)


def _n(counts: Sequence[int]) -> str:
    low, high = counts[0], counts[-1]
    return f"n = {counted(low, 'query')}" if low == high else f"n = {low} to {high} queries"


def quality_lines(content: Content) -> list[QualityLine]:
    """Return the measured metrics of answers and contexts of `focus`, with the baseline's values.

    Return [] without a `focus`.
    """
    if content.focus is None:
        return []
    rows = {row.name: row for row in content.board.configurations}
    focus, base = rows[content.focus], rows.get(content.baseline or content.focus)
    found = []
    for metric in answer_metrics():
        own = focus.summary(metric.name)
        if own.n:
            share = metric.is_share and (own.high or own.mean or 0.0) <= 1
            held = base.summary(metric.name) if base else UNMEASURED
            found.append(QualityLine(metric, own, held, share))
    return found


def price_figures(content: Content) -> list[Figure]:
    """Return charts of quality against latency, cost per search and total cost."""
    rows = content.board.configurations
    latencies = [row.latency_ms for row in rows]
    asking = [None if r.usd_per_query is None else 1_000 * r.usd_per_query for r in rows]
    costs = [row.costs.usd if row.costs.is_known else None for row in rows]
    return [
        _price(content, "Latency", latencies, "median milliseconds a query", "milliseconds"),
        _price(content, "Cost per query", asking, "US dollars for 1,000 searches", "US dollars"),
        _price(content, "Cost so far", costs, "US dollars spent on calls so far", "US dollars"),
    ]


def _price(
    content: Content, title: str, prices: Sequence[float | None], what: str, unit: str
) -> Figure:
    title = f"{title} against quality"
    rows = zip(content.board.configurations, prices, strict=True)
    points = [
        Point(row.name, str(rank), price, row.summary(content.metric))
        for rank, (row, price) in enumerate(rows, 1)
        if price is not None and row.summary(content.metric).n
    ]
    if not points:
        return Figure(title, "Not measured.", Markup(""))
    if not any(point.x for point in points):
        return Figure(title, f"{what[0].upper()}{what[1:]}: none.", Markup(""))
    counts = sorted({point.y.n for point in points})
    note = (
        f"{content.metric} in percent against {what}; {_n(counts)}, {len(points)} configurations."
    )
    return Figure(title, note, scatter(title, points, unit), points=points, unit=unit)
