"""List the installed metrics, and read the scores of a configuration by metric and query."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError
from rag_pipeline.evaluation.answer_scores import AnswerScore
from rag_pipeline.evaluation.context_quality.scores import CONTEXT_METRICS
from rag_pipeline.evaluation.entities.scores import ENTITY_METRICS
from rag_pipeline.evaluation.intervals import Summary, group_names, summarize
from rag_pipeline.evaluation.metrics import Direction, Metric, RankingMetric
from rag_pipeline.evaluation.results import CONTEXT_SCORES, ENTITY_SCORES, PRESENCE, SCORES
from rag_pipeline.evaluation.retrieval_metrics import RANKING_METRICS, short_name
from rag_pipeline.imports import ANSWER_SCORES, METRICS, load_group, origin, warn_once
from rag_pipeline.workspace import Workspace

Values = Mapping[str, float | None]
"""A metric's values by query id. A value is None if it is undefined or its judgement failed."""
Scores = Mapping[str, Values]

_OWN: tuple[Metric[Any], ...] = (*RANKING_METRICS, *ENTITY_METRICS, *CONTEXT_METRICS)


def asset_of(metric: str) -> str:
    """Return the name of the asset that measures a metric."""
    if metric in (m.name for m in ENTITY_METRICS):
        return ENTITY_SCORES.name
    is_of_answers = metric in (m.name for m in answer_metrics())
    return CONTEXT_SCORES.name if is_of_answers else PRESENCE.name


def ranking_metrics() -> tuple[RankingMetric, ...]:
    """Return every metric of retrieval. The metrics of other packages come last."""
    return tuple(m for m in all_metrics().values() if isinstance(m, RankingMetric))


def answer_metrics() -> tuple[Metric[Any], ...]:
    """Return every metric of answers and contexts."""
    return tuple(m for m in all_metrics().values() if not isinstance(m, RankingMetric))


def all_metrics() -> Mapping[str, Metric[Any]]:
    """Return every metric by name in display order. The metrics of retrieval come first."""
    scores = load_group(ANSWER_SCORES, AnswerScore)
    return _checked(tuple(load_group(METRICS).items()), tuple(scores.items()))


@cache
def _checked(
    rankings: tuple[tuple[str, Any], ...], scores: tuple[tuple[str, type[AnswerScore]], ...]
) -> Mapping[str, Metric[Any]]:
    provided: list[tuple[str, str, Any, type[Metric[Any]]]] = [
        *((METRICS, point, own, RankingMetric) for point, own in rankings),
        *((ANSWER_SCORES, p, getattr(score, "metrics", None), Metric) for p, score in scores),
    ]
    found = {metric.name: metric for metric in _OWN}
    for group, point, own, kind in provided:
        for metric in own if isinstance(own, tuple) else (own,):
            if not isinstance(metric, kind):
                what = f"{metric!r:.80}, not a {kind.__name__}; repair its code"
                warn_once(f"{origin(group, point)} provides {what}")
            elif found.setdefault(metric.name, metric) is not metric:
                taken = f"a metric {metric.name!r} exists already; give it another name"
                warn_once(f"{origin(group, point)}: {taken}")
    in_order = sorted(found.values(), key=lambda metric: not isinstance(metric, RankingMetric))
    return {metric.name: metric for metric in in_order}


def headline_metrics() -> list[str]:
    """Return the names of the metrics that leaderboards show by default."""
    return [name for name, metric in all_metrics().items() if metric.headline]


def added_metrics() -> list[str]:
    """Return the names of the metrics of other packages."""
    return [name for name, metric in all_metrics().items() if metric not in _OWN]


def is_share(metric: str) -> bool:
    """Return whether a metric lies between 0 and 1, and is shown in percent."""
    found = all_metrics().get(metric)
    return found.is_share if found else True


def direction(metric: str) -> Direction:
    """Return whether `higher`, `lower` or `neither` values are better. The default is `higher`."""
    found = all_metrics().get(metric)
    return found.direction if found else "higher"


def explanation(metrics: Iterable[str]) -> str:
    """Return the short names of metrics with their definitions, without Answer Presence."""
    known = {name: all_metrics()[name] for name in metrics if name in all_metrics()}
    shown = {n: m for n, m in known.items() if not n.startswith("AnswerPresence@")}
    return " ".join(f"{short_name(name)}: {m.definition}" for name, m in shown.items())


def gate_metrics(config: CorpusConfig) -> list[str]:
    """Return `gate.metrics`. If a judge labels fewer than k passages, its number replaces k."""
    judge, known, found = config.evaluation.judge, all_metrics(), list[str]()
    for name in config.gate.metrics:
        depth = getattr(known.get(name), "depth", None) or 0
        most = range(judge.passages if judge else depth, 0, -1)
        lower = (one for k in most if (one := f"{name.partition('@')[0]}@{k}") in known)
        found += [*lower][:1] if depth > len(most) else [name]
    return found


def read_scores(workspace: Workspace, configuration: str) -> dict[str, dict[str, float | None]]:
    """Return a configuration's values by metric and query id, or {} before the first run."""
    found: dict[str, dict[str, float | None]] = {}
    for results in SCORES:
        table = results.read(workspace, configuration)
        if table is not None:
            found |= columns_of(table)
    return found


def columns_of(table: pa.Table) -> dict[str, dict[str, float | None]]:
    """Return the numeric columns of a table of scores, by name and query id."""
    ids = table.column("query_id").to_pylist()
    return {
        field.name: dict(zip(ids, table.column(field.name).to_pylist(), strict=True))
        for field in table.schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    }


def summarize_over(
    values: Values, ids: Iterable[str], groups: Mapping[str, str], metric: str = "values"
) -> Summary:
    """Summarize a metric over the queries `ids`. `groups` has the groups by query id."""
    ids = list(ids)
    return summarize([values.get(q) for q in ids], group_names(ids, groups), metric)


def summarize_scores(scores: Scores, groups: Mapping[str, str]) -> dict[str, Summary]:
    """Summarize each metric over all queries that occur in any metric."""
    ids = dict.fromkeys(query_id for values in scores.values() for query_id in values)
    return {
        metric: summarize_over(values, ids, groups, metric) for metric, values in scores.items()
    }


def check_metric_names(config: CorpusConfig, also: Iterable[str] = ()) -> None:
    """Raise ConfigError for an unknown `serve_metric` or gate metric.

    `also` has the names of further known metrics. Also raise ConfigError if higher values of
    `serve_metric` are not better, or if a gate metric has no better direction.
    """
    known = [*all_metrics(), *also]
    named = {"serve_metric": [config.serve_metric], "gate.metrics": config.gate.metrics}
    for place, metrics in named.items():
        unfit = {"neither"} if place == "gate.metrics" else {"neither", "lower"}
        for metric in metrics:
            if metric not in known:
                raise ConfigError(
                    f"{config.where}: {place}: {metric!r} is not one of: {', '.join(known)}"
                )
            if direction(metric) in unfit:
                raise ConfigError(
                    f"{config.where}: {place}: higher values of {metric!r} are not better; name "
                    f"another metric"
                )
