"""Label and score each query of a configuration's run and answers, and write the files."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import Context, Models, Settings, fingerprint
from rag_pipeline.datamodels import Answered, ContextJudgement, GoldSpan, Judged, Query
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.answer_scores import AnswerScore
from rag_pipeline.evaluation.answers import load_answers
from rag_pipeline.evaluation.context_quality.rules import best_levels
from rag_pipeline.evaluation.context_quality.scores import (
    CONTEXT_METRICS,
    context_metrics,
    context_relevance,
)
from rag_pipeline.evaluation.entities.scores import (
    ENTITY_METRICS,
    EntityScore,
    score_entities,
    summarize_entities,
)
from rag_pipeline.evaluation.health import Attainable, measure_health
from rag_pipeline.evaluation.intervals import Summary
from rag_pipeline.evaluation.llm_relevance import agreement
from rag_pipeline.evaluation.relevance import judge_chunks, relevance_labels
from rag_pipeline.evaluation.results import CONTEXT_SCORES, ENTITY_SCORES, LABELS, PRESENCE, RUN
from rag_pipeline.evaluation.retrieval_metrics import (
    RANKING_METRICS,
    evaluate_query,
    judged_metrics,
)
from rag_pipeline.evaluation.runs import load_groups, load_queries, load_ranked, load_unsearched
from rag_pipeline.evaluation.scores import columns_of, ranking_metrics, summarize_scores
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace

SCORES_VERSION = 2

Labels = dict[str, list[bool | None]]
"""Labels by query id, best passage first. A failed judgement is None."""


def update_labels(workspace: Workspace, configuration: str) -> dict[str, Any]:
    """Label the first passages of every query by the judge, and return the note of the file.

    The label of a failed judgement is null. In the note, `missing` counts these labels, and
    `agreement` has the confusion table of gold and judge with Cohen's kappa.
    """
    settings = workspace.config.evaluation.judge
    assert settings is not None
    source = LABELS.made_from(workspace, configuration)
    queries = load_queries(workspace)
    ranked = load_ranked(workspace, configuration, settings.passages)
    counts = CallCounts()
    asked = [(query, chunk) for query in queries for chunk in ranked[query.query_id]]
    judged = settings.label(asked, workspace.models(counts))
    labels = [None if isinstance(label, ProviderError) else label for label in judged]
    gold: list[bool | None] = []
    for query in queries:
        own = ranked[query.query_id]
        has_gold = bool(query.gold_spans)
        gold += relevance_labels(own, query.gold_spans) if has_gold else [None] * len(own)
    agreed = agreement(gold, labels)
    columns: dict[str, Sequence[Any]] = {
        "query_id": [query.query_id for query, _ in asked],
        "chunk_id": [chunk.chunk_id for _, chunk in asked],
        "label": labels,
        "gold": gold,
        "error": [str(label) if isinstance(label, ProviderError) else None for label in judged],
    }
    more = {
        "judged": len(labels) - labels.count(None),
        "missing": labels.count(None),
        "agreement": {**asdict(agreed), "n": agreed.n, "kappa": agreed.kappa},
    }
    return LABELS.keep(workspace, configuration, source, columns, counts, judged, more)


def load_labels(workspace: Workspace, configuration: str) -> Labels:
    """Return the labels by query id, or {} if there are none."""
    labels: Labels = {}
    for row in LABELS.rows(workspace, configuration):
        labels.setdefault(row["query_id"], []).append(row["label"])
    return labels


def scores_are_current(workspace: Workspace, configuration: str) -> bool:
    """Return whether a configuration's retrieval metrics belong to its current run."""
    return PRESENCE.digest(workspace, configuration) == scores_digest(workspace, configuration)


def scores_digest(workspace: Workspace, configuration: str) -> str:
    """Hash the inputs of a configuration's retrieval metrics: its run and a judge's labels."""
    run = RUN.digest(workspace, configuration)
    labels: list[Any] = []
    if workspace.config.evaluation.judge is not None:
        labels = ["settled", LABELS.digest(workspace, configuration)]
    # The version covers the metrics of this package. Other metrics have their own versions.
    own = set(map(id, RANKING_METRICS))
    added = [[m.name, m.version] for m in ranking_metrics() if id(m) not in own]
    return fingerprint("answer_presence", SCORES_VERSION, run, *labels, *added)


def update_scores(
    workspace: Workspace,
    configuration: str,
    labels: Mapping[str, Sequence[bool | None]] | None = None,
) -> dict[str, Summary]:
    """Measure each query of a configuration's run by gold, and return the summaries.

    If given, the `labels` of a judge replace gold in the metrics of `judged_metrics`. `labels` has
    lists by query id, best passage first.
    """
    made_from = scores_digest(workspace, configuration)
    ranked = load_ranked(workspace, configuration)
    queries = load_queries(workspace)
    relevant = judge_chunks(queries, _chunks_of_run(workspace, configuration, queries))
    metrics = ranking_metrics()
    scores = []
    unsearched = load_unsearched(workspace, configuration)
    for query in queries:
        if query.query_id in unsearched:  # an unknown result is null, not 0
            scores.append(dict.fromkeys((metric.name for metric in metrics), None))
            continue
        chunks = ranked[query.query_id]
        found = relevant[query.query_id]
        measured = evaluate_query(query, chunks, found.chunk_ids, metrics, found.lost)
        if labels is not None:
            measured |= judged_metrics(query, chunks, labels.get(query.query_id, []), metrics)
        scores.append(measured)
    values = {metric.name: [score[metric.name] for score in scores] for metric in metrics}
    table = PRESENCE.table({"query_id": [q.query_id for q in queries], **values})
    PRESENCE.write(workspace, table, {"digest": made_from}, configuration)
    return summarize_scores(columns_of(table), load_groups(workspace))


def _chunks_of_run(
    workspace: Workspace, configuration: str, queries: Sequence[Query]
) -> Iterable[pa.RecordBatch]:
    """Read the searched chunks of the documents with gold spans."""
    pinned = Pinned(**RUN.note(workspace, configuration)["pinned"])
    table = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    documents = sorted({span.document_id for query in queries for span in query.gold_spans})
    columns = ["chunk_id", "document_id", "start", "end"]
    return table.read(columns, documents, version=pinned.vector_version)


def update_entity_scores(workspace: Workspace, configuration: str) -> dict[str, Any]:
    """Score the answers of every query with annotated entities, and return the note of the file.

    The metrics of a query are null if it has no annotations, or if its answer or the extraction
    failed. In the note, `missing` counts these failures, and `summary` is the result of
    `summarize_entities`. An unanswered query states no entity.
    """
    settings = workspace.config.evaluation.entities
    source = ENTITY_SCORES.made_from(workspace, configuration)
    queries = load_queries(workspace)
    answers = load_answers(workspace, configuration)
    counts = CallCounts()
    texts = {
        q.query_id: answer.text if answer.answered else ""
        for q in queries
        if q.entities and (answer := answers.get(q.query_id)) is not None
    }
    found = settings.extract(list(texts.values()), workspace.models(counts))
    extracted = dict(zip(texts, found, strict=True))

    def scored(query: Query) -> EntityScore | None:
        entities = extracted.get(query.query_id)
        if entities is None or isinstance(entities, ProviderError):
            return None
        truth, text = (query.entities, query.critical_types), texts[query.query_id]
        return score_entities(text, entities, *truth, settings.similarity)

    by_query = list(map(scored, queries))
    scores = [score for score in by_query if score is not None]
    columns: dict[str, Sequence[Any]] = {
        "query_id": [q.query_id for q in queries],
        **{m.name: [m.measure(s) if s else None for s in by_query] for m in ENTITY_METRICS},
        "facts": [
            [{"type": k, "fact": f, "found": hit} for k, f, hit in s.facts] if s else None
            for s in by_query
        ],
    }
    annotated = sum(bool(query.entities) for query in queries)
    more = {
        "annotated": annotated,
        "missing": annotated - len(scores),
        "summary": summarize_entities(scores),
    }
    return ENTITY_SCORES.keep(workspace, configuration, source, columns, counts, found, more)


def update_context_scores(workspace: Workspace, configuration: str) -> dict[str, Any]:
    """Judge and score the contexts of every query, and return the note of the file.

    The metrics of a query are null if it has no contexts, or if its answer or the judgement failed.
    In the note, `missing` counts these failures and the failures of `evaluation.scores`. `health`
    has the values of `Health`.
    """
    settings = workspace.config.evaluation.context
    source = CONTEXT_SCORES.made_from(workspace, configuration)
    queries = load_queries(workspace)
    ranked = load_ranked(workspace, configuration, settings.contexts)
    answers = load_answers(workspace, configuration)
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
    columns: dict[str, Sequence[Any]] = {
        "query_id": [q.query_id for q in queries],
        **{name: [row[name] for row in rows] for name in names},
        "contexts": [[asdict(c) for c in j.contexts] if j else None for j in kept],
        "missing": [j.missing if j else None for j in kept],
        "overall": [j.overall if j else None for j in kept],
        **{n: [values.get(q.query_id) for q in queries] for n, values in further.items()},
    }
    attainable = _attainable(workspace, configuration, queries, settings)
    more = {
        "queries": len(queries),
        "missing": kept.count(None) + len(failed),
        "health": asdict(measure_health(rows, settings.scale, attainable)),
    }
    outcomes = [*found, *failed]
    return CONTEXT_SCORES.keep(workspace, configuration, source, columns, counts, outcomes, more)


def load_judgements(workspace: Workspace, configuration: str) -> dict[str, ContextJudgement]:
    """Return each judged query's judgement by query id, or {} before the first run."""
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
    workspace: Workspace, configuration: str, queries: Sequence[Query], rates: Context
) -> list[Attainable]:
    """Return the best possible values of each query with the chunks of the run, 1 if unknown."""
    if "pinned" not in RUN.note(workspace, configuration):  # a dry run has no run
        return [Attainable() for _ in queries]
    of_document: defaultdict[str, list[GoldSpan]] = defaultdict(list)
    for batch in _chunks_of_run(workspace, configuration, queries):
        for row in batch.select(["document_id", "start", "end"]).to_pylist():
            of_document[row["document_id"]].append(GoldSpan(**row))
    found = []
    for query in queries:
        documents = {span.document_id for span in query.gold_spans}
        chunks = [chunk for document_id in documents for chunk in of_document[document_id]]
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
