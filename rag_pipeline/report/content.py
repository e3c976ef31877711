"""Collect all values of a corpus's evaluation that the report shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from rag_pipeline import release
from rag_pipeline.config import Configuration
from rag_pipeline.datamodels import Query
from rag_pipeline.errors import NotReleasedError, StoreError
from rag_pipeline.evaluation.comparison import evaluated_scores, measured_metrics
from rag_pipeline.evaluation.consensus import DEPTH, first_answers
from rag_pipeline.evaluation.explanation import Diagnosis, failing_queries
from rag_pipeline.evaluation.leaderboard import BoardRow, load_leaderboard, with_verdicts
from rag_pipeline.evaluation.llm_relevance import Agreement, agreement
from rag_pipeline.evaluation.prediction_powered import CorrectedMean, corrected_mean
from rag_pipeline.evaluation.results import CONTEXT_SCORES, ENTITY_SCORES, LABELS
from rag_pipeline.evaluation.runs import (
    load_groups,
    load_queries,
    load_ranked,
    load_search_texts,
)
from rag_pipeline.evaluation.scores import Scores
from rag_pipeline.evaluation.slices import ContextPart, Slice, context_breakdown, slices
from rag_pipeline.evaluation.stage_effects import CUTOFFS, StageEffect, stage_effects
from rag_pipeline.evaluation.summary import Summary
from rag_pipeline.indexing import text_warnings
from rag_pipeline.search.tokenization import Tokenizer
from rag_pipeline.workspace import Workspace

K = 5
"""A query fails if its first K chunks do not answer it."""
_MAX_RELEASES = 20


@dataclass(frozen=True, slots=True)
class EntityTypeScores:
    """Scores of the facts of one type in answers; `n` counts the expected facts."""

    kind: str
    precision: float | None
    recall: float | None
    f1: float | None
    n: int


@dataclass(frozen=True, slots=True)
class HealthFigures:
    """The five measures of context health over `queries`; None for an undefined one."""

    queries: int
    missing: int
    figures: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Labels of the relevance judge against gold, and means corrected by their agreement."""

    agreement: Agreement
    kappa: tuple[float, float] | None
    corrected: Mapping[str, CorrectedMean]


@dataclass(frozen=True, slots=True)
class Content:
    """The values of the report. `focus` is the served configuration, else the best one."""

    corpus: str
    metric: str
    queries: int
    left_out: int
    rows: Sequence[BoardRow]
    baseline: str | None
    released: str | None
    serving: str | None
    focus: str | None
    gate: Mapping[str, Any]
    scores: Mapping[str, Scores]
    effects: Sequence[StageEffect]
    slices: Sequence[Slice]
    failures: Sequence[Diagnosis]
    entities: Sequence[EntityTypeScores]
    health: HealthFigures | None
    origin: str = ""
    """A sentence with the number of synthetic queries; "" if there are none."""
    chosen: str = ""
    """A sentence about the bias of choosing the best; "" for one configuration."""
    scope: str = ""
    """A sentence that limits the intervals if all queries are about few documents."""
    judge: JudgeAgreement | None = None
    """Agreement of the relevance judge with gold; None without a judge."""
    few_labels: CorrectedMean | None = None
    """AnswerPresence@1 of `focus` over people's queries, if some of them have no gold."""
    parts: Sequence[ContextPart] = ()
    """Quality of the contexts of `focus` by position, number and length."""
    trend: Sequence[release.Release] = ()
    """The releases with their metrics at the time of release, newest first."""
    doubtful: Sequence[str] = ()
    """A line for every document with doubtful text."""


def collect(workspace: Workspace) -> Content:
    """Read all results; raise StoreError before the first evaluation."""
    config = workspace.config
    try:
        served = release.current(workspace)
    except NotReleasedError:
        served = None
    reference = release.served_reference(workspace)
    board = with_verdicts(workspace, load_leaderboard(workspace), reference)
    names = board.names()
    scores = {n: s for n, s in evaluated_scores(workspace).items() if n in names}
    focus = served.configuration if served and served.configuration in names else None
    focus = focus or next(iter(names), None)
    queries = load_queries(workspace)
    groups = load_groups(workspace)
    known: list[Configuration] = [config.configuration(name) for name in scores]
    baseline = board.references.get("baseline")
    (metric,) = measured_metrics([config.serve_metric], scores.values())
    try:
        failing = failing_queries(workspace, focus, K) if focus else []
    except StoreError:
        failing = []
    return Content(
        corpus=config.corpus,
        metric=metric,
        queries=len(queries),
        left_out=board.queries_left_out,
        origin=board.origin,
        rows=board.configurations,
        baseline=baseline if baseline in names else None,
        released=reference.configuration if reference else None,
        serving=f"{served.release_id} ({served.configuration})" if served else None,
        focus=focus,
        gate=served.gate if served else {},
        scores=scores,
        effects=stage_effects(known, scores, config.configuration(config.baseline_name), K, groups),
        slices=slices(queries, scores[focus].get(metric, {}), groups) if focus else [],
        failures=failing,
        entities=_entities(workspace, focus),
        health=_health(workspace, focus),
        chosen=board.chosen.sentence if board.chosen else "",
        scope=board.scope,
        judge=_judge(workspace, focus, groups),
        few_labels=few_labels(workspace, focus, queries, scores[focus], groups) if focus else None,
        parts=context_breakdown(workspace, focus, scores[focus], groups) if focus else (),
        trend=release.history(workspace)[:_MAX_RELEASES],
        doubtful=text_warnings(workspace),
    )


def _judge(
    workspace: Workspace, configuration: str | None, groups: Mapping[str, str]
) -> JudgeAgreement | None:
    rows = LABELS.rows(workspace, configuration or "")
    if not rows:
        return None
    labels: dict[str, list[tuple[bool | None, bool | None]]] = {}
    for row in rows:
        labels.setdefault(row["query_id"], []).append((row.get("gold"), row["label"]))
    agreed = agreement([row.get("gold") for row in rows], [row["label"] for row in rows])
    corrected = {}
    for k in CUTOFFS:
        gold, judged = (
            {q: presence([pair[side] for pair in own[:k]]) for q, own in labels.items()}
            for side in (0, 1)
        )
        found = corrected_mean(gold, judged, groups)
        if found and k <= max(map(len, labels.values())):
            corrected[f"AnswerPresence@{k}"] = found
    return JudgeAgreement(agreed, agreed.kappa_interval, corrected)


def few_labels(
    workspace: Workspace,
    configuration: str,
    queries: Sequence[Query],
    scores: Scores,
    groups: Mapping[str, str],
) -> CorrectedMean | None:
    """Estimate AnswerPresence@1 over all queries if some of them lack gold.

    Combine the gold of the labelled queries with predictions for all queries (prediction-powered
    inference). Return None if the predictions do not help.
    """
    asked = {
        q.query_id: q.query for q in queries if not q.synthetic and "unanswerable" not in q.tags
    }
    measured = scores.get("AnswerPresence@1", {})
    gold = {q: measured.get(q) for q in asked}
    if None not in gold.values():
        return None
    search_texts = load_search_texts(workspace, configuration)
    asks = {q: search_texts.get(q, query) for q, query in asked.items()}
    ranked = load_ranked(workspace, configuration, DEPTH)
    judged = first_answers(ranked, asks, Tokenizer(workspace.config.lexical).tokenize)
    found = corrected_mean(gold, judged, groups)
    return found if found and found.weight else None


def presence(labels: Sequence[bool | None]) -> float | None:
    """Return 1 if any label is True; None if the result depends on a missing label."""
    return 1.0 if True in labels else None if None in labels or not labels else 0.0


def _entities(workspace: Workspace, configuration: str | None) -> list[EntityTypeScores]:
    note = ENTITY_SCORES.note(workspace, configuration or "")
    by_type = note.get("summary", {}).get("by_type", {})
    fields = itemgetter("precision", "recall", "f1", "facts")
    return [EntityTypeScores(t, *fields(found)) for t, found in by_type.items() if found["facts"]]


def _health(workspace: Workspace, configuration: str | None) -> HealthFigures | None:
    note = CONTEXT_SCORES.note(workspace, configuration or "")
    found = dict(note.get("health", {}))
    if not found.get("queries"):
        return None
    queries, missing = found.pop("queries"), found.pop("missing")
    return HealthFigures(queries, missing, {name.replace("_", " "): v for name, v in found.items()})


def presence_curve(row: BoardRow) -> dict[int, Summary]:
    """Return a configuration's Answer Presence at every cutoff."""
    return {k: row.summary(f"AnswerPresence@{k}") for k in CUTOFFS}
