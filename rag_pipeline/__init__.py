"""Turn raw documents into a searchable, evaluated and released RAG index.

Where things are, from left to right as data flows. What may import what is the import contract of
pyproject.toml: earlier stages never import later ones, and only `orchestration` knows Dagster.

Shared by all
    errors             every error that is raised on purpose, in one tree
    imports, memory    large packages without their unused parts; what the process keeps
    datamodels         what flows between the stages: documents, chunks, queries, answers
    config             the corpus file: variants of each stage, configurations, fingerprints
    store              a folder or bucket per corpus: tables, indexes, notes, manifests
    workspace          a corpus's settings, tables, cache and models, opened on first use

Asking models: nothing is paid for twice
    calls              each call cached, paced, retried, priced and shared with other machines
    models             chat, batches and embeddings; one file per vendor or local model

Documents -> an index
    loading            files, queries and public data sets -> documents and queries
    chunking           a document -> chunks
    contextualization  a document and its chunks -> the context put before each
    search             both indexes, query analysis, fusion, ranking, reranking
    indexing           which documents are stale in which table, and building just these

A query -> an answer, measured, then released
    answering          a query and its chunks -> an answer with citations
    evaluation         chunks and answers against gold: metrics, intervals, leaderboard
    questions          questions from the documents, where nobody has asked any
    release            checks, gate, manifests: what is served, from which builds
    report             the evaluation as one page
    pipeline           every step of a corpus in order, and what a run of it would do

How it is used
    corpus             `Corpus`: search the release from Python
    orchestration      Dagster: assets, checks, sensors, executors; `definitions` loads `defs/`
    assistant          a question -> an answer over released corpora, in stages
    serving            the assistant by MCP, HTTP and Dify; a retriever for LangChain
    cli                `rag`
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


def __dir__() -> list[str]:
    """Name what is imported on first use, too: `dg` looks for components with `dir`."""
    return sorted({*globals(), *__all__})
