"""The run of a configuration -> its retrieval metrics per query, by gold or a judge's labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from rag_pipeline.config import Configuration, fingerprint
from rag_pipeline.evaluation.relevance import judge_chunks
from rag_pipeline.evaluation.results import LABELS, PRESENCE, RUN
from rag_pipeline.evaluation.retrieval_metrics import (
    RANKING_METRICS,
    evaluate_query,
    judged_metrics,
)
from rag_pipeline.evaluation.runs import load_groups, load_queries, load_ranked, load_unsearched
from rag_pipeline.evaluation.scores import ranking_metrics
from rag_pipeline.evaluation.summary import Summary, summarize_all
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA
from rag_pipeline.workspace import Workspace

SCORES_VERSION = 2


def scores_are_current(workspace: Workspace, configuration: Configuration) -> bool:
    """Return whether a configuration's scores belong to its current run."""
    name = configuration.name
    return PRESENCE.digest(workspace, name) == scores_digest(workspace, name)


def update_scores(
    workspace: Workspace,
    configuration: Configuration,
    labels: Mapping[str, Sequence[bool | None]] | None = None,
) -> dict[str, Summary]:
    """Measure a configuration's run by gold, per query; return the summaries.

    `labels` of a judge, by query id and best passage first, replace gold (see `judged_metrics`).
    """
    made_from = scores_digest(workspace, configuration.name)
    ranked = load_ranked(workspace, configuration.name)
    queries = load_queries(workspace)
    # The chunks of the run, not the current ones: each rank belongs to its own chunking.
    pinned = Pinned(**RUN.note(workspace, configuration.name)["pinned"])
    searched = workspace.store.table(pinned.vector_table, CONTEXTUALIZED_CHUNKS_SCHEMA)
    spans = ["chunk_id", "document_id", "start", "end"]
    gold_documents = sorted({s.document_id for q in queries for s in q.gold_spans})
    relevant = judge_chunks(
        queries, searched.read(spans, gold_documents, version=pinned.vector_version)
    )
    metrics = ranking_metrics()
    scores = []
    unsearched = load_unsearched(workspace, configuration.name)
    for query in queries:
        if query.query_id in unsearched:  # null, not 0: its result is unknown
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
    PRESENCE.write(workspace, table, {"digest": made_from}, configuration.name)
    groups = load_groups(workspace)
    return summarize_all(scores, [groups[q.query_id] for q in queries])


def scores_digest(workspace: Workspace, configuration: str) -> str:
    """Hash the inputs of a configuration's scores: its run and a judge's labels."""
    run = RUN.digest(workspace, configuration)
    labels: list[Any] = []
    if workspace.config.evaluation.judge is not None:
        labels = [LABELS.digest(workspace, configuration)]
    # The version covers the metrics of this package; others have their own.
    added = [[m.name, m.version] for m in ranking_metrics() if m not in RANKING_METRICS]
    return fingerprint("answer_presence", SCORES_VERSION, run, *labels, *added)
