"""Turn raw documents into a searchable, evaluated and released RAG index.

The list below shows the parts of the package in the order of the data flow. Earlier parts never
import later parts, and only `orchestration` imports Dagster. An import contract in pyproject.toml
checks both rules.

Shared by all
    errors             all own errors in one tree
    imports            imports large packages and loads entry points on first use
    memory             pauses the garbage collector; frees unused memory
    datamodels         the data between stages: documents, chunks, queries, answers
    config             the corpus file: variants of each stage, configurations, fingerprints
    store              a folder or bucket per corpus: tables, indexes, notes, manifests
    workspace          a corpus's settings, tables, cache and models, opened on first use

Asking models: nothing is paid for twice
    calls              one database of calls: answers, claims, rate limits, costs, budget
    models             chat, batches and embeddings; one file per vendor or local model

Documents -> an index
    loading            files, queries and public data sets -> documents and queries
    chunking           a document -> chunks
    contextualization  a document and its chunks -> the context of each chunk
    search             both indexes, query analysis, fusion, ranking, reranking
    indexing           finds stale documents and builds only these

A query -> an answer, measured, then released
    answering          a query and its chunks -> an answer with citations
    evaluation         chunks and answers against gold: metrics, intervals, leaderboard
    questions          makes questions from the documents
    release            checks, gate, manifests of the served builds
    report             the evaluation as one page
    pipeline           the steps of a corpus in order, their plan and their driver

How it is used
    corpus             `Corpus`: search the release from Python
    orchestration      Dagster: assets, checks, sensors, executors; `definitions` loads `defs/`
    assistant          a question -> an answer over released corpora
    serving            the assistant by MCP, HTTP and Dify; a retriever for LangChain
    client             `Client`: a server's HTTP interface from Python
    cli                `rag`
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rag_pipeline.errors import RagPipelineError

if TYPE_CHECKING:
    from rag_pipeline.client.clients import AsyncClient, Client
    from rag_pipeline.corpus import Corpus
    from rag_pipeline.datamodels import (
        Caller,
        Chunk,
        ContextualizedChunk,
        Document,
        GoldSpan,
        Query,
        ScoredChunk,
    )
    from rag_pipeline.orchestration.component import RagPipeline

__all__ = [
    "AsyncClient",
    "Caller",
    "Chunk",
    "Client",
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
    """Import a name on first use, because `Corpus` imports LanceDB, and `RagPipeline` Dagster."""
    modules = {
        "client.clients": "AsyncClient Client",
        "corpus": "Corpus",
        "datamodels": "Caller Chunk ContextualizedChunk Document GoldSpan Query ScoredChunk",
        "orchestration.component": "RagPipeline",
    }
    for module, names in modules.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all names, also those not imported yet, because `dg` finds components by `dir`."""
    return sorted({*globals(), *__all__})
