"""Turn raw documents into a searchable, evaluated and released RAG index.

Where things are, from left to right as data flows. What may import what is the import contract of
pyproject.toml: earlier stages never import later ones, and only `orchestration` knows Dagster.

Shared by all
    errors               every error that is raised on purpose, in one tree
    datamodels           what flows between the stages: documents, chunks, queries, answers
    config               the corpus file: variants of each stage, configurations, fingerprints
    progress, addresses  what a long step has done so far; which hosts are this machine
    databases            SQLite files that many write at once
    grouping             sizes -> groups that fit a request, a file or a shard
    store                a folder or bucket per corpus: tables, indexes, notes, manifests

Asking models: nothing is paid for twice
    calls                each call cached, paced, retried; `sharing` tells other machines of it
    costs                prices, the ledger of every call, the budget
    providers            one file per vendor or local model
    chat, batches        prompts -> replies, at once or through a provider's batches

Documents -> an index
    loading              files -> documents
    chunking             a document -> chunks
    contextualization    a document and its chunks -> the context put before each
    embedding            texts -> vectors
    tokenization         texts -> the terms of BM25
    vector_index, lexical_index    build one, search one
    workspace            a corpus's settings, tables, cache and models, opened on first use
    indexing             which documents are stale in which table, and building just these

A query -> ranked chunks -> an answer
    queries              `queries.jsonl` -> queries with their gold spans
    query_analysis       which part of a query names a document, and which part asks
    fusion               ranked lists -> one list
    retrieval            a query -> the ranked chunks of one index
    context_aware        the same in two searches: all documents, then the leading ones
    adaptive_selection   how many chunks a query needs
    reranking            the best candidates first, by token vectors or by reading them
    two_stage_retrieval  retrieve, then rerank and select: what a configuration's run does
    generation           a query and its chunks -> an answer with citations

Measured, then released
    importers            public data sets -> documents and queries
    evaluation           chunks and answers against gold: metrics, intervals, leaderboard
    checks, gate         what must hold of each table; may a candidate replace what is served
    release              manifests: what is served, from which builds; moving that
    report               the evaluation as one page
    planning             every step of a corpus in order, and whether it is stale
    bundle, inspection, retention  a release as one file; a store mended; a store kept small

How it is used
    corpus               `Corpus`: search the release from Python
    orchestration        Dagster: assets, checks, sensors, executors; `definitions` loads `defs/`
    assistant            a question -> an answer over released corpora, in stages
    serving, integrations  the assistant by MCP, HTTP and Dify; retrievers for LangChain
    cli                  `rag`
"""

from typing import TYPE_CHECKING, Any

from rag_pipeline.datamodels import (
    Chunk,
    ContextualizedChunk,
    Document,
    GoldSpan,
    Query,
    ScoredChunk,
)
from rag_pipeline.errors import RagPipelineError

if TYPE_CHECKING:
    from rag_pipeline.corpus import Corpus
    from rag_pipeline.orchestration.component import RagPipeline

__all__ = [
    "Chunk",
    "ContextualizedChunk",
    "Corpus",
    "Document",
    "GoldSpan",
    "Query",
    "RagPipeline",
    "RagPipelineError",
    "ScoredChunk",
]


def __getattr__(name: str) -> Any:
    """Import the two heavy names on first use: `Corpus` (LanceDB) and `RagPipeline` (Dagster)."""
    if name == "Corpus":
        from rag_pipeline.corpus import Corpus

        return Corpus
    if name == "RagPipeline":
        from rag_pipeline.orchestration.component import RagPipeline

        return RagPipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
