"""Answers -> precision, recall and F1 of their entities, per query and over all."""

from dataclasses import asdict
from typing import Any

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import Configuration
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.entities.scores import (
    ENTITY_METRICS,
    Counts,
    EntityScore,
    EntitySummary,
    score_entities,
    summarize_entities,
)
from rag_pipeline.evaluation.quality.answers import load_answers
from rag_pipeline.evaluation.results import ENTITY_SCORES
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.workspace import Workspace


def update_entity_scores(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Score the answers of every query with annotated entities; return the note.

    The metrics of a query are null without annotations, and if its answer or the extraction
    failed. `missing` counts these failures. An answer without a result states no entity. `summary`
    is an `EntitySummary`.
    """
    settings = workspace.config.evaluation.entities
    source = ENTITY_SCORES.made_from(workspace, configuration.name)
    queries = load_queries(workspace)
    answers = load_answers(workspace, configuration.name)
    counts = CallCounts()
    texts: dict[str, str] = {}
    for query in queries:
        answer = answers.get(query.query_id)
        if query.entities and answer is not None:
            texts[query.query_id] = answer.text if answer.answered else ""
    found = settings.extract(list(texts.values()), workspace.models(counts))
    extracted = dict(zip(texts, found, strict=True))
    scores: dict[str, EntityScore] = {}
    for query in queries:
        entities = extracted.get(query.query_id)
        if entities is not None and not isinstance(entities, ProviderError):
            scores[query.query_id] = score_entities(
                texts[query.query_id],
                entities,
                query.entities,
                query.critical_types,
                settings.similarity,
            )
    by_query = [scores.get(q.query_id) for q in queries]
    table = ENTITY_SCORES.table(
        {
            "query_id": [q.query_id for q in queries],
            **{m.name: [m.measure(s) if s else None for s in by_query] for m in ENTITY_METRICS},
            "facts": [
                [{"type": k, "fact": f, "found": hit} for k, f, hit in s.facts] if s else None
                for s in by_query
            ],
        }
    )
    annotated = sum(bool(query.entities) for query in queries)
    failures = [str(e) for e in extracted.values() if isinstance(e, ProviderError)]
    more = {
        "annotated": annotated,
        "missing": annotated - len(scores),
        "summary": _plain(summarize_entities(scores.values())),
    }
    return ENTITY_SCORES.keep(workspace, configuration.name, source, table, counts, failures, more)


def _plain(summary: EntitySummary) -> dict[str, Any]:
    return {
        **asdict(summary),
        "micro": _values(summary.micro),
        "by_type": {kind: _values(counts) for kind, counts in summary.by_type.items()},
    }


def _values(counts: Counts) -> dict[str, float | None]:
    return {
        **asdict(counts),
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
    }
