"""Render an evaluation as one self-contained HTML page, without scripts or network access."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from jinja2 import Template

from rag_pipeline.evaluation.intervals import UNMEASURED, Summary
from rag_pipeline.evaluation.retrieval_metrics import short_name
from rag_pipeline.evaluation.scores import added_metrics, explanation
from rag_pipeline.evaluation.stage_effects import CUTOFFS
from rag_pipeline.report.charts import DARK_PALETTE, PALETTE, STYLE, interval_strip, standalone
from rag_pipeline.report.content import Content as Content
from rag_pipeline.report.content import K
from rag_pipeline.report.content import collect as collect
from rag_pipeline.report.figures import (
    measured,
    presence_figures,
    price_figures,
    quality_lines,
    stage_figure,
)

REPORT_FILE = "evaluation/report.html"
_OTHERS = (
    "AnswerPresence@1 AnswerPresence@10 AnswerPresence@20 nDCG@10 DocumentMismatch@5 EntityF1"
).split()
_MAX_SLICES = 15
_MAX_FAILURES = 50
_CUT = 600


def render(content: Content) -> str:
    """Return the report as an HTML page."""
    rows = content.board.configurations
    slices = content.slices if measured(content, content.metric) else ()
    labels = content.board.labels()

    page = _template().render(
        content=content,
        metric=content.metric,
        best=rows[0].summary(content.metric) if rows else None,
        others=[
            metric
            for metric in (*_OTHERS, *added_metrics())
            if metric != content.metric and measured(content, metric)
        ],
        curves=presence_figures(content),
        stages=[{"effect": e, "figure": stage_figure(e)} for e in content.effects],
        quality=quality_lines(content),
        prices=[figure for figure in price_figures(content) if figure.points],
        parts=_by_kind(content.parts),
        unmeasured=asdict(UNMEASURED),
        slices={kind: own for kind, own in _by_kind(slices).items() if len(own) > 1},
        reasons=Counter(d.reason for d in content.failures),
        k=K,
        cutoffs=CUTOFFS,
        most_slices=_MAX_SLICES,
        most_failures=_MAX_FAILURES,
        short=short_name,
        explanation=explanation,
        strip=lambda s: interval_strip(s if isinstance(s, Summary) else Summary(**s)),
        cut=lambda text: text if len(text) <= _CUT else f"{text[: _CUT - 1]}…",
        broken=lambda name: _breakable(str(labels.get(name, name))),
        labels=labels,
        palette=Markup(PALETTE),
        dark_palette=Markup(DARK_PALETTE),
        chart_style=Markup(STYLE),
    )
    for name in sorted(labels, key=len, reverse=True):
        page = page.replace(name, labels[name])
    return page


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rag_pipeline", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("template.html.j2")


def images(content: Content) -> dict[str, str]:
    """Return the contents of SVG files with the report's charts, by title."""
    figures = [*presence_figures(content), *map(stage_figure, content.effects)]
    charts = {figure.title: figure.svg for figure in figures}
    charts |= {figure.title: figure.svg for figure in price_figures(content) if figure.points}
    return {title: standalone(svg) for title, svg in charts.items()}


def _by_kind(parts: Sequence[Any]) -> dict[str, list[Any]]:
    return {kind: list(members) for kind, members in groupby(parts, key=attrgetter("kind"))}


def _breakable(name: str) -> Markup:
    """Return a name as HTML in which lines may break after dots, slashes and underscores."""
    return Markup(re.sub(r"(?<=[./_])(?=[^.&])", "<wbr>", str(escape(name))))
