"""A run and its answers -> context metrics and further scores per query, and the health."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import Configuration, Context, Models, Settings
from rag_pipeline.datamodels import GoldSpan, Query
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.answer_scores import Answered, AnswerScore
from rag_pipeline.evaluation.context_quality.rules import best_levels
from rag_pipeline.evaluation.context_quality.scores import (
    CONTEXT_METRICS,
    ContextJudgement,
    Judged,
    context_metrics,
    context_relevance,
)
from rag_pipeline.evaluation.health import Attainable, measure_health
from rag_pipeline.evaluation.quality.answers import load_answers
from rag_pipeline.evaluation.results import CONTEXT_SCORES, RUN
from rag_pipeline.evaluation.runs import load_queries, load_ranked
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace


def update_context_scores(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Judge the contexts of every query and score them; return the note.

    The metrics of a query are null without contexts, and if its answer or the judgement failed.
    `missing` counts failed judgements. `health` holds the five figures.
    """
    settings = workspace.config.evaluation.context
    source = CONTEXT_SCORES.made_from(workspace, configuration.name)
    queries = load_queries(workspace)
    ranked = load_ranked(workspace, configuration.name, settings.contexts)
    answers = load_answers(workspace, configuration.name)
    counts = CallCounts()
    shown = [
        Answered(query, ranked[query.query_id], answer)
        for query in queries
        if (answer := answers.get(query.query_id)) is not None
    ]
    models = workspace.models(counts)
    found = settings.judge_contexts(shown, models)
    judged = {one.query.query_id: j for one, j in zip(shown, found, strict=True)}
    kept = [
        judgement if isinstance(judgement := judged.get(q.query_id), ContextJudgement) else None
        for q in queries
    ]
    names = [metric.name for metric in CONTEXT_METRICS]
    rows = [context_metrics(j, settings) if j else dict.fromkeys(names) for j in kept]
    further, failed = _further_scores(workspace.config.evaluation.scores, shown, models)
    table = CONTEXT_SCORES.table(
        {
            "query_id": [q.query_id for q in queries],
            **{name: [row[name] for row in rows] for name in names},
            "contexts": [[asdict(c) for c in j.contexts] if j else None for j in kept],
            "missing": [j.missing if j else None for j in kept],
            "overall": [j.overall if j else None for j in kept],
            **{n: [values.get(q.query_id) for q in queries] for n, values in further.items()},
        }
    )
    failures = [str(j) for j in [*judged.values(), *failed] if isinstance(j, ProviderError)]
    attainable = _attainable(workspace, configuration, queries, settings)
    more = {
        "queries": len(queries),
        "missing": kept.count(None) + len(failed),
        "health": asdict(measure_health(rows, settings.scale, attainable)),
    }
    name = configuration.name
    return CONTEXT_SCORES.keep(workspace, name, source, table, counts, failures, more)


def load_judgements(workspace: Workspace, configuration: str) -> dict[str, ContextJudgement]:
    """Return the judged contexts by query id."""
    return {
        row["query_id"]: ContextJudgement(
            tuple(Judged(**context) for context in row["contexts"]),
            tuple(row["missing"] or ()),
            row["overall"] or "",
        )
        for row in CONTEXT_SCORES.rows(workspace, configuration)
        if row["contexts"] is not None
    }


def _attainable(
    workspace: Workspace, configuration: Configuration, queries: Sequence[Query], rates: Context
) -> list[Attainable]:
    """Return the best possible values for the chunks of the run; 1 without gold."""
    note = RUN.note(workspace, configuration.name)
    if "pinned" not in note:  # a dry run has no run
        return [Attainable() for _ in queries]
    pinned = Pinned(**note["pinned"])
    searched = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    documents = {q.query_id: {s.document_id for s in q.gold_spans} for q in queries}
    of_document: dict[str, list[GoldSpan]] = {d: [] for ds in documents.values() for d in ds}
    spans = ["document_id", "start", "end"]
    for batch in searched.read(spans, sorted(of_document), version=pinned.vector_version):
        for row in batch.to_pylist():
            of_document[row["document_id"]].append(
                GoldSpan(row["document_id"], row["start"], row["end"])
            )
    found = []
    for query in queries:
        chunks = [c for d in documents[query.query_id] for c in of_document[d]]
        if not chunks:
            found.append(Attainable())
            continue
        levels = best_levels(query, chunks, rates.contexts)
        judged = ContextJudgement(tuple(Judged(level, used=True) for level in levels))
        relevant = sum(level in ("high", "medium") for level in levels)
        relevance = (context_relevance(judged, rates) or 0.0) / rates.scale
        found.append(Attainable(relevance, relevant / len(levels)))
    return found


def _further_scores(
    scores: Sequence[Settings], answered: Sequence[Answered], models: Models
) -> tuple[dict[str, dict[str, float | None]], list[ProviderError]]:
    """Return the values of `evaluation.scores` by metric and query id, and the failures."""
    found: dict[str, dict[str, float | None]] = {}
    failed: list[ProviderError] = []
    for score in scores:
        assert isinstance(score, AnswerScore)
        for metric in score.metrics:
            found[metric.name] = {}
        for one, values in zip(answered, score.measure(answered, models), strict=True):
            if isinstance(values, ProviderError):
                failed.append(values)
                continue
            for metric in score.metrics:
                found[metric.name][one.query.query_id] = values.get(metric.name)
    return found, failed
