"""A run -> a judge's labels of each query's first passages, and their agreement with gold."""

from dataclasses import asdict
from typing import Any

from rag_pipeline.calls import CallCounts
from rag_pipeline.config import Configuration
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.llm_relevance import agreement
from rag_pipeline.evaluation.relevance import relevance_labels
from rag_pipeline.evaluation.results import LABELS
from rag_pipeline.evaluation.runs import load_queries, load_ranked
from rag_pipeline.workspace import Workspace

Labels = dict[str, list[bool | None]]
"""Labels by query id, best passage first; None for a failed judgement."""


def update_labels(workspace: Workspace, configuration: Configuration) -> dict[str, Any]:
    """Judge the first passages of every query; return the note.

    `missing` counts failed judgements, which are null. `agreement` holds the confusion table with
    gold and Cohen's kappa over the queries with gold spans.
    """
    settings = workspace.config.evaluation.judge
    assert settings is not None
    source = LABELS.made_from(workspace, configuration.name)
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
    table = LABELS.table(
        {
            "query_id": [query.query_id for query, _ in asked],
            "chunk_id": [chunk.chunk_id for _, chunk in asked],
            "label": labels,
            "gold": gold,
            "error": errors,
        }
    )
    more = {
        "judged": len(labels) - labels.count(None),
        "missing": labels.count(None),
        "agreement": {**asdict(agreed), "n": agreed.n, "kappa": agreed.kappa},
    }
    failures = [error for error in errors if error]
    return LABELS.keep(workspace, configuration.name, source, table, counts, failures, more)


def load_labels(workspace: Workspace, configuration: str) -> Labels:
    """Return the labels by query id; {} without any."""
    labels: Labels = {}
    for row in LABELS.rows(workspace, configuration):
        labels.setdefault(row["query_id"], []).append(row["label"])
    return labels
