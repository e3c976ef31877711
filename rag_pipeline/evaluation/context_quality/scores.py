"""Compute the context metrics of one query from the judgements of its contexts, best first.

Source of the formulas: Mastra, "Building better RAG with context-aware evaluation" (2025). All
rates are settings. Unlike in the source, every metric is None without contexts, and no value is
rounded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rag_pipeline.config import Context
from rag_pipeline.datamodels import ContextJudgement, Judged
from rag_pipeline.evaluation.intervals import mean_of_known
from rag_pipeline.evaluation.metrics import Metric, average_precision

_RELEVANT = ("high", "medium")


def context_relevance(judgement: ContextJudgement, rates: Context) -> float | None:
    """Return max(0, relevance - usage penalty - missing penalty) x scale, or None without contexts.

    Relevance is the mean weight of the contexts (high 1.0, medium 0.7, low 0.3, none 0) divided by
    the weight of high. The usage penalty is 0.1 for each unused high context. The missing penalty
    is 0.15 for each missing item, and at most 0.5. These numbers are the defaults.
    """
    contexts = judgement.contexts
    if not contexts:
        return None
    weights = {"high": rates.high, "medium": rates.medium, "low": rates.low, "none": 0.0}
    most = len(contexts) * rates.high
    relevance = sum(weights[c.level] for c in contexts) / most if most else 0.0
    unused = sum(c.level == "high" and not c.used for c in contexts)
    missing = min(len(judgement.missing) * rates.missing_penalty, rates.most_missing_penalty)
    return max(0.0, relevance - unused * rates.unused_penalty - missing) * rates.scale


def context_precision(contexts: Sequence[Judged]) -> float | None:
    """Return the average precision of the contexts, with levels high and medium as relevant.

    Return 0 if no context is relevant, and None without contexts. Unlike in `AP`, chunks that were
    not retrieved do not count.
    """
    if not contexts:
        return None
    labels = [context.level in _RELEVANT for context in contexts]
    return average_precision(labels, sum(labels))


def ranking_penalty(contexts: Sequence[Judged], rates: Context) -> float | None:
    """Return the penalty for `high` contexts below the third rank, or None without contexts.

    By default, each of these contexts adds 0.05 for each rank below the third. The sum is at most
    0.3.
    """
    if not contexts:
        return None
    late = sum(
        max(place - rates.ranking_free_places, 0)
        for place, context in enumerate(contexts, 1)
        if context.level == "high"
    )
    return min(late * rates.ranking_penalty, rates.most_ranking_penalty)


class RatedContexts(NamedTuple):
    """A query's judged contexts, and the settings of the context scores."""

    judgement: ContextJudgement
    rates: Context


CONTEXT_METRICS: tuple[Metric[RatedContexts], ...] = (
    Metric(
        name="ContextRelevance", measure=lambda rated: context_relevance(*rated),
        definition="Relevance of the contexts, minus penalties for missing and unused facts.",
    ),
    Metric(
        name="ContextPrecision", headline=False,
        measure=lambda rated: context_precision(rated.judgement.contexts),
        definition="Average precision over the contexts of high or medium relevance.",
    ),
    Metric(
        name="RankingPenalty", direction="lower", headline=False,
        measure=lambda rated: ranking_penalty(rated.judgement.contexts, rated.rates),
        definition="Penalty for contexts of high relevance at low ranks.",
    ),
    Metric(
        name="UsageRate", headline=False,
        measure=lambda rated: mean_of_known(float(c.used) for c in rated.judgement.contexts),
        definition="Share of the contexts that the answer used.",
    ),
    Metric(
        name="MissingItems", direction="lower", is_share=False, headline=False,
        measure=lambda rated: float(len(rated.judgement.missing)),
        definition="Number of items that the contexts lack.",
    ),
    Metric(
        name="RelevantCount", direction="neither", is_share=False, headline=False,
        measure=lambda rated: float(sum(c.level in _RELEVANT for c in rated.judgement.contexts)),
        definition="Number of contexts of high or medium relevance.",
    ),
)  # fmt: skip
"""The metrics of a query that has contexts, in display order."""


def context_metrics(judgement: ContextJudgement, rates: Context) -> dict[str, float | None]:
    """Return every metric of `CONTEXT_METRICS` by name. Without contexts, each is None."""
    rated = RatedContexts(judgement, rates)
    return {m.name: m.measure(rated) if judgement.contexts else None for m in CONTEXT_METRICS}
