"""Measure the effect of each stage by curves over matched configurations.

Matched configurations differ in one stage only. The curve of a variant is its mean over matched
configurations, so the effect of the other stages cancels out.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_pipeline.config import STAGES, Configuration
from rag_pipeline.evaluation.comparison import Groups
from rag_pipeline.evaluation.intervals import UNMEASURED, Summary, group_names
from rag_pipeline.evaluation.scores import Scores, Values, summarize_scores
from rag_pipeline.evaluation.significance import Comparison, compare_family

CUTOFFS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20)
_MOST_VARIANTS = 12
"""Maximum number of variants whose subsets are searched for the best match."""


@dataclass(frozen=True, slots=True)
class StageEffect:
    """One stage's variants with their Answer Presence@k curves and differences to `reference`.

    `matched` is the number of configurations in each curve. `compared_at` names the metric of the
    differences. `left_out` names the variants without a match.
    """

    stage: str
    reference: str
    matched: int
    compared_at: str
    curves: Mapping[str, Mapping[int, Summary]]
    comparisons: Mapping[str, Comparison]
    left_out: tuple[str, ...]


def stage_effects(
    configurations: Sequence[Configuration],
    scores: Mapping[str, Scores],
    reference: Configuration | None = None,
    k: int = 5,
    groups: Groups | None = None,
) -> list[StageEffect]:
    """Return the effect of every stage with at least two matched variants.

    `scores` is by configuration name. Configurations without scores are ignored. Variants are
    compared with the variant of `reference`, or with the first variant. The comparisons of a stage
    are one family (see `significance.decide`). `k` is the cutoff of the comparisons.
    """
    evaluated = [c for c in configurations if c.name in scores]
    effects = (_effect(stage, evaluated, scores, reference, k, groups or {}) for stage in STAGES)
    return [effect for effect in effects if effect is not None]


def _effect(
    stage: str,
    configurations: Sequence[Configuration],
    scores: Mapping[str, Scores],
    reference: Configuration | None,
    k: int,
    groups: Groups,
) -> StageEffect | None:
    others = [s for s in STAGES if s != stage]
    choices: dict[tuple[str, ...], dict[str, str]] = {}
    for configuration in configurations:
        choice = tuple(configuration.variant(s) for s in others)
        choices.setdefault(choice, {})[configuration.variant(stage)] = configuration.name
    every = list(dict.fromkeys(v for choice in choices.values() for v in choice))
    variants = _matched(every, list(choices.values()))
    if len(variants) < 2:
        return None
    wanted = reference.variant(stage) if reference else None
    first = wanted if wanted in variants else variants[0]
    variants = [first, *(v for v in variants if v != first)]
    matched = [choice for choice in choices.values() if all(v in choice for v in variants)]
    means = {v: {m: _mean(scores, matched, v, m) for m in map(_metric, CUTOFFS)} for v in variants}
    at = _metric(k)
    family = {
        v: [(value, means[first][at].get(query_id)) for query_id, value in means[v][at].items()]
        for v in variants[1:]
    }
    own = {v: group_names(means[v][at], groups) for v in variants[1:]}
    return StageEffect(
        stage=stage,
        reference=first,
        matched=len(matched),
        compared_at=at,
        curves={v: _curve(means[v], groups) for v in variants},
        comparisons=compare_family(family, groups=own),
        left_out=tuple(v for v in every if v not in variants),
    )


def _matched(variants: Sequence[str], choices: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the largest set of variants that matches the most configurations.

    Each of `choices` maps variants to configurations that are alike in all other stages.
    """
    if len(variants) > _MOST_VARIANTS:
        return [v for v in variants if all(v in choice for choice in choices)]
    best: tuple[int, int, list[str]] = (0, 0, [])
    for size in range(2, len(variants) + 1):
        for subset in itertools.combinations(variants, size):
            together = sum(all(v in choice for v in subset) for choice in choices)
            if together and (together * size, size) > best[:2]:
                best = (together * size, size, list(subset))
    return best[2]


def _mean(
    scores: Mapping[str, Scores], matched: Sequence[Mapping[str, str]], variant: str, metric: str
) -> dict[str, float | None]:
    """Return a variant's mean over the matched configurations by query id."""
    columns: list[Values] = [scores[choice[variant]].get(metric, {}) for choice in matched]
    found: dict[str, float | None] = {}
    for query_id in columns[0]:
        values = [column.get(query_id) for column in columns]
        complete = [v for v in values if v is not None]
        found[query_id] = sum(complete) / len(values) if len(complete) == len(values) else None
    return found


def _curve(means: Mapping[str, Values], groups: Groups) -> dict[int, Summary]:
    summaries = summarize_scores(means, groups)
    return {cutoff: summaries.get(_metric(cutoff), UNMEASURED) for cutoff in CUTOFFS}


def _metric(k: int) -> str:
    return f"AnswerPresence@{k}"
