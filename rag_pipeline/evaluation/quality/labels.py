"""A run -> a judge's YES or NO on each query's first passages, and its agreement with gold."""

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import Configuration
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.answer_presence import relevance_labels
from rag_pipeline.evaluation.llm_relevance import agreement
from rag_pipeline.evaluation.quality.notes import made_from, quality_file, write
from rag_pipeline.evaluation.runs import load_queries, load_ranked
from rag_pipeline.workspace import Workspace

Labels = dict[str, list[bool | None]]
"""A query's labels, best ranked passage first; None where the judgement failed."""


def update_labels(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Judge the first passages of every query; return the note.

    What was judged before is not asked again; a failed judgement is null and counted as `missing`.
    `agreement` holds the confusion table against gold and Cohen's kappa, over the queries with
    gold spans.
    """
    settings = workspace.config.evaluation.judge
    assert settings is not None
    source = made_from(workspace, "relevance_labels", configuration.name)
    queries = load_queries(workspace)
    ranked = load_ranked(workspace, configuration.name, settings.passages)
    counts = CallCounts()
    asked = [(query, chunk) for query in queries for chunk in ranked[query.query_id]]
    judged = settings.label(asked, workspace.models(counts))
    labels = [None if isinstance(label, ProviderError) else label for label in judged]
    gold = [
        label
        for query in queries
        for label in (
            relevance_labels(ranked[query.query_id], query.gold_spans)
            if query.gold_spans
            else [None] * len(ranked[query.query_id])
        )
    ]
    errors = [str(label) if isinstance(label, ProviderError) else None for label in judged]
    agreed = agreement(gold, labels)
    table = pa.table(
        {
            "query_id": pa.array([query.query_id for query, _ in asked], pa.string()),
            "chunk_id": pa.array([chunk.chunk_id for _, chunk in asked], pa.string()),
            "label": pa.array(labels, pa.bool_()),
            "gold": pa.array(gold, pa.bool_()),
            "error": pa.array(errors, pa.string()),
        }
    )
    more = {
        "judged": len(labels) - labels.count(None),
        "missing": labels.count(None),
        "errors": list(dict.fromkeys(e for e in errors if e))[:20],
        "calls": asdict(counts),
        "agreement": {**asdict(agreed), "n": agreed.n, "kappa": agreed.kappa},
    }
    return write(workspace, "relevance_labels", configuration.name, source, table, more)


def load_labels(workspace: Workspace, configuration: str) -> Labels:
    """Return the labels by query id; {} where nothing was judged."""
    table = workspace.store.read_parquet(quality_file("relevance_labels", configuration))
    labels: Labels = {}
    for row in [] if table is None else table.to_pylist():
        labels.setdefault(row["query_id"], []).append(row["label"])
    return labels
