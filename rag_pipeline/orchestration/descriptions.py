"""What each asset says of itself in Dagster's UI: description, kinds, owners, partitions."""

from typing import Any

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration.names import asset_key, group_name
from rag_pipeline.orchestration.partitions import PARTITIONED, partitions_of

DESCRIPTIONS = {
    "documents": "Files and JSON Lines records, decoded. What can't be used is quarantined with "
    "the reason.",
    "queries": "The questions, with their gold spans resolved against the documents.",
    "chunks": "Spans of each document's text. A partition is a `chunking`.",
    "contextualized_chunks": "Chunks with the short context that is indexed before them. A "
    "partition is a `chunking.contextualizer`.",
    "lexical_index": "BM25 over contextualized chunks. A partition is a `chunking.contextualizer`.",
    "vector_index": "Contextualized chunks with a unit vector each, in LanceDB. A partition is a "
    "`chunking.contextualizer.embedding`.",
    "retrieval_run": "The ranked chunks of every query. A partition is a configuration.",
    "relevance_labels": "A chat model's YES or NO for each query's first passages, and how far it "
    "agrees with gold. A partition is a configuration.",
    "answer_presence": "Answer Presence@k and ranking metrics per query, judged by gold spans or "
    "relevance labels. A partition is a configuration.",
    "answers": "An answer to every query from the first chunks of its run, with citations. A "
    "partition is a configuration.",
    "entity_scores": "Precision, recall and F1 of the facts in the answers, per query. A "
    "partition is a configuration.",
    "context_scores": "How relevant, used, complete and well ranked the contexts of each query "
    "are. A partition is a configuration.",
    "leaderboard": "Every configuration with its metrics, best first.",
    "release": "The manifest that pins the configuration and the exact builds that are served.",
    "assistant_prompts": "The prompts of the assistant's model, with examples of good answers "
    "where these make it score higher. Made on demand alone: it costs some answers a query.",
}
KINDS = {
    "documents": {"lancedb"},
    "queries": {"parquet"},
    "chunks": {"lancedb"},
    "contextualized_chunks": {"lancedb"},
    "lexical_index": {"bm25"},
    "vector_index": {"lancedb"},
    "retrieval_run": {"parquet"},
    "relevance_labels": {"parquet"},
    "answer_presence": {"parquet"},
    "answers": {"parquet"},
    "entity_scores": {"parquet"},
    "context_scores": {"parquet"},
    "leaderboard": {"json"},
    "release": {"json"},
    "assistant_prompts": {"json"},
}


def shared_settings(config: CorpusConfig, name: str) -> dict[str, Any]:
    """Return what every asset says of itself, as arguments of Dagster's definitions."""
    return {
        "key": asset_key(config, name),
        "group_name": group_name(config),
        "description": _description(config, name),
        "kinds": KINDS[name],
        "owners": list(config.owners),
        "tags": {"corpus": config.corpus},
        "partitions_def": partitions_of(config, name) if name in PARTITIONED else None,
    }


def _description(config: CorpusConfig, name: str) -> str:
    about = f"\n\n{config.description}" if config.description and name == "documents" else ""
    return DESCRIPTIONS[name] + about
