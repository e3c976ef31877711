"""Collect the values of the report on a corpus's evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_pipeline import release
from rag_pipeline.config import Configuration
from rag_pipeline.datamodels import Query
from rag_pipeline.errors import NotReleasedError, StoreError
from rag_pipeline.evaluation.comparison import evaluated_scores
from rag_pipeline.evaluation.consensus import DEPTH, first_answers
from rag_pipeline.evaluation.explanation import Diagnosis, failing_queries
from rag_pipeline.evaluation.leaderboard import Board, load_leaderboard, with_verdicts
from rag_pipeline.evaluation.llm_relevance import Agreement, agreement
from rag_pipeline.evaluation.prediction_powered import CorrectedMean, corrected_mean
from rag_pipeline.evaluation.results import CONTEXT_SCORES, ENTITY_SCORES, LABELS
from rag_pipeline.evaluation.runs import load_groups, load_queries, load_ranked, load_search_texts
from rag_pipeline.evaluation.scores import Scores
from rag_pipeline.evaluation.slices import ContextPart, Slice, context_breakdown, slices
from rag_pipeline.evaluation.stage_effects import CUTOFFS, StageEffect, stage_effects
from rag_pipeline.indexing import refused_documents, text_warnings
from rag_pipeline.release.candidate import served_reference
from rag_pipeline.search.tokenization import Tokenizer
from rag_pipeline.workspace import Workspace

K = 5
"""A query fails if none of its first K chunks answers."""
_MAX_RELEASES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The values of the report. `focus` is the served or else the best configuration."""

    metric: str
    queries: int
    board: Board
    baseline: str | None
    released: str | None
    serving: str | None
    focus: str | None
    gate: Mapping[str, Any]
    scores: Mapping[str, Scores]
    effects: Sequence[StageEffect]
    slices: Sequence[Slice]
    failures: Sequence[Diagnosis]
    entities: Mapping[str, Mapping[str, float | None]]
    """Precision, recall, F1 and counts of the facts in answers, by entity type."""
    health: Mapping[str, float | None]
    """The values of `evaluation.health.Health`, or {}."""
    agreement: Agreement | None
    """Agreement of the relevance judge with gold, or None without a judge."""
    corrected: Mapping[str, CorrectedMean]
    """Means of Answer Presence by the relevance judge, corrected by the queries with gold."""
    few_labels: CorrectedMean | None
    """The estimated AnswerPresence@1 of `focus`, or None if all of people's queries have gold."""
    parts: Sequence[ContextPart]
    """Quality of the contexts of `focus` by their position, number and total characters."""
    trend: Sequence[release.Release]
    """The releases with their metrics at the time of release, newest first."""
    doubtful: Sequence[str]
    """A line for each document with doubtful text."""
    refused: Sequence[str]
    """A line for each file that is not readable as a document."""


def collect(workspace: Workspace) -> Content:
    """Read all results. Raise StoreError if no configuration is evaluated."""
    config = workspace.config
    try:
        served = release.current(workspace)
    except NotReleasedError:
        served = None
    reference = served_reference(workspace)
    board = with_verdicts(workspace, load_leaderboard(workspace), reference)
    names = board.names()
    scores = {n: s for n, s in evaluated_scores(workspace).items() if n in names}
    focus = served.configuration if served and served.configuration in names else None
    focus = focus or next(iter(names), None)
    queries = load_queries(workspace)
    groups = load_groups(workspace)
    known: list[Configuration] = [config.configuration(name) for name in scores]
    baseline = board.references.get("baseline")
    metric = board.sorted_by
    try:
        failing = failing_queries(workspace, focus, K) if focus else []
    except StoreError:
        failing = []
    labels = LABELS.rows(workspace, focus or "")
    gold, judged = ([row[side] for row in labels] for side in ("gold", "label"))
    entities = ENTITY_SCORES.note(workspace, focus or "").get("summary", {}).get("by_type", {})
    health = CONTEXT_SCORES.note(workspace, focus or "").get("health", {})
    return Content(
        metric=metric,
        queries=len(queries),
        board=board,
        baseline=baseline if baseline in names else None,
        released=reference.configuration if reference else None,
        serving=f"{served.release_id} ({served.configuration})" if served else None,
        focus=focus,
        gate=served.gate if served else {},
        scores=scores,
        effects=stage_effects(known, scores, config.configuration(config.baseline_name), K, groups),
        slices=slices(queries, scores[focus].get(metric, {}), groups) if focus else [],
        failures=failing,
        entities={kind: found for kind, found in entities.items() if found["facts"]},
        health=health if health.get("queries") else {},
        agreement=agreement(gold, judged) if labels else None,
        corrected=_corrected(labels, groups),
        few_labels=few_labels(workspace, focus, queries, scores[focus], groups) if focus else None,
        parts=context_breakdown(workspace, focus, scores[focus], groups) if focus else (),
        trend=release.history(workspace)[:_MAX_RELEASES],
        doubtful=text_warnings(workspace),
        refused=refused_documents(workspace),
    )


def _corrected(
    rows: Sequence[Mapping[str, Any]], groups: Mapping[str, str]
) -> dict[str, CorrectedMean]:
    """Return the judge's Answer Presence@k of the judged passages by name, corrected by gold."""
    labels: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        labels.setdefault(row["query_id"], []).append(row)
    corrected = {}
    for k in CUTOFFS:
        gold, judged = (
            {q: presence([row[side] for row in own[:k]]) for q, own in labels.items()}
            for side in ("gold", "label")
        )
        found = corrected_mean(gold, judged, groups)
        if found and k <= max(map(len, labels.values())):
            corrected[f"AnswerPresence@{k}"] = found
    return corrected


def few_labels(
    workspace: Workspace,
    configuration: str,
    queries: Sequence[Query],
    scores: Scores,
    groups: Mapping[str, str],
) -> CorrectedMean | None:
    """Estimate AnswerPresence@1 over people's answerable queries if some of them lack gold.

    The estimate combines the gold of some queries with predictions for all queries
    (prediction-powered inference). Return None if every query has gold, or if the predictions have
    no weight.
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
    """Return 1.0 if any label is True, 0.0 if all labels are False, or else None."""
    return 1.0 if True in labels else None if None in labels or not labels else 0.0
