"""Open the builds of two releases or configurations, and search variations of both.

Rows and their vectors are read from the store, and vectors of queries from the call cache. No
function of this module calls a model.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_pipeline.calls import CallCache
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import GoldSpan, ScoredChunk, SearchRequest
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.indexing import read_documents
from rag_pipeline.models.embedding import embed_tokens
from rag_pipeline.models.providers import open_embedder
from rag_pipeline.release.holds import settings_of
from rag_pipeline.release.manifest import ReleaseSettings, load, read_settings
from rag_pipeline.search.index import Index
from rag_pipeline.search.lexical_index import build_lexical_index, built_with, open_lexical_index
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.search.reranking.passages import passage_scorer
from rag_pipeline.search.retrieval import Searcher, cached
from rag_pipeline.workspace import Workspace

MAX_ROWS = 50_000
"""Maximum number of chunks in the index of a variation."""


@dataclass(frozen=True, kw_only=True)
class ComparedBuild:
    """The rows and settings of a compared build."""

    name: str
    rows: pa.Table
    lexical: Lexical
    settings: ReleaseSettings
    documents_version: int | None

    @cached_property
    def by_document(self) -> dict[str, pa.Table]:
        """Return the rows of each document, ordered by start."""
        ordered = self.rows.sort_by([("document_id", "ascending"), ("start", "ascending")])
        ids = ordered.column("document_id").to_pylist()
        firsts = [i for i, d in enumerate(ids) if i == 0 or ids[i - 1] != d]
        ends = [*firsts[1:], len(ids)]
        return {ids[a]: ordered.slice(a, b - a) for a, b in zip(firsts, ends, strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A build in which some rows and settings may come from another build."""

    rows: Mapping[str, ComparedBuild]
    """The build with the rows of each document, by document id."""
    settings: ReleaseSettings
    lexical: Lexical
    key: tuple[Any, ...]
    """Variations with the same key have the same rows."""


def open_build(workspace: Workspace, name: str) -> ComparedBuild:
    """Open a release, or the last run of a configuration.

    Raise StoreError if the release or run does not exist, or has more than `MAX_ROWS` chunks.
    """
    config = workspace.config
    if name in config.all_configurations:
        note = RUN.note(workspace, name)
        if not note:
            raise StoreError(
                f"{config.corpus}: {name} has not been evaluated yet; run: rag run {config.where}"
            )
        pinned = Pinned(**note["pinned"])
        settings = read_settings(settings_of(workspace, config.configuration(name)), name)
    else:
        release = load(workspace, name)
        pinned, settings = release.pinned, release.typed_settings()
    if pinned.rows > MAX_ROWS:
        raise StoreError(
            f"{config.corpus}: {name} has {pinned.rows:,} chunks, but this comparison indexes at "
            f"most {MAX_ROWS:,}; `rag explain` shows a question's result in each configuration"
        )
    table = workspace.store.table(pinned.vector_table, None).dataset(pinned.vector_version)
    lexical = config.lexical
    if pinned.lexical_path is not None:
        lexical = built_with(workspace.store.local_folder(pinned.lexical_path))
    return ComparedBuild(
        name=name,
        rows=table.to_table(),
        lexical=lexical,
        settings=settings,
        documents_version=pinned.documents_version,
    )


class _CachedCallsWorkspace(Workspace):
    """A workspace that reads answers of models only from the call cache."""

    @cached_property
    def cache(self) -> CallCache:
        return RecordingCache.of(Workspace(self.config).cache)


class VariationSearch(AbstractContextManager["VariationSearch"]):
    """The indexes of variations. The end of the `with` block deletes them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = _CachedCallsWorkspace(workspace.config)
        self._folder = tempfile.TemporaryDirectory(prefix="rag-why-")
        self._indexes: dict[tuple[Any, ...], Index] = {}

    def __exit__(self, *_: object) -> None:
        self._indexes.clear()
        self._folder.cleanup()

    def search(self, variation: Variation, query: str) -> Sequence[ScoredChunk]:
        """Return a query's ranked chunks. Raise UnknownReplyError if a model call is needed."""
        settings = variation.settings
        embedder = open_embedder(self._workspace.config.located(settings.embedding))
        cache = self._workspace.cache
        embed = cached(lambda texts: embed_tokens(texts, embedder, cache, "query"))
        chats = settings.reranker_chats
        searcher = Searcher(
            index=self._index(variation),
            retriever=settings.retriever,
            reranker=settings.reranker,
            embed=embed,
            score=passage_scorer(self._workspace, settings.reranker, chats=chats),
        )
        return searcher.search(SearchRequest(query=query)).chunks

    def _index(self, variation: Variation) -> Index:
        engine = variation.settings.retriever.lexical_engine
        from lance import write_dataset

        key = (*variation.key, engine, variation.lexical)
        if key not in self._indexes:
            folder = Path(self._folder.name) / str(len(self._indexes))
            parts = [build.by_document[d] for d, build in variation.rows.items()]
            rows = pa.concat_tables(parts, promote_options="default")
            table = write_dataset(rows, folder / "rows.lance")
            lexical = None
            if engine is not None:
                path = folder / "lexical"
                build_lexical_index(engine, rows.to_batches(), variation.lexical, path)
                lexical = open_lexical_index(path)
            self._indexes[key] = Index.open(table, lexical)
        return self._indexes[key]


def gold_of(
    workspace: Workspace, query_ids: Sequence[str], build: ComparedBuild
) -> dict[str, list[GoldSpan]]:
    """Return the gold spans of some queries, with the offsets in a build's documents.

    A span is left out if the build's document lacks its exact text.
    """
    wanted = [q for q in load_queries(workspace) if q.query_id in set(query_ids)]
    ids = sorted({s.document_id for q in wanted for s in q.gold_spans})
    present = {d.document_id: d.text for d in read_documents(workspace, ids)}
    then = present
    if build.documents_version is not None:
        read = read_documents(workspace, ids, build.documents_version)
        then = {d.document_id: d.text for d in read}
    found: dict[str, list[GoldSpan]] = {}
    for query in wanted:
        for span in query.gold_spans:
            text = present.get(span.document_id, "")[span.start : span.end]
            theirs = then.get(span.document_id, "")
            same = bool(text) and theirs[span.start : span.end] == text
            start = span.start if same else theirs.find(text) if text else -1
            if start >= 0:
                moved = GoldSpan(span.document_id, start, start + len(text))
                found.setdefault(query.query_id, []).append(moved)
    return found


def same_rows(one: pa.Table | None, other: pa.Table | None) -> bool:
    """Return whether two documents have equal chunks, contexts and vectors."""
    if one is None or other is None or len(one) != len(other):
        return one is other
    names = ("start", "end", "text", "context", "title", "vector", "token_vectors")
    return all(column_of(one, n) == column_of(other, n) for n in names)


def differing(one: ComparedBuild, other: ComparedBuild) -> list[str]:
    """Return the ids of documents with different rows, or with rows in only one build."""
    every = sorted({*one.by_document, *other.by_document})
    return [d for d in every if not same_rows(one.by_document.get(d), other.by_document.get(d))]


def column_of(table: pa.Table, name: str) -> list[Any]:
    """Return a column of a document's rows, or [] if the table lacks the column."""
    return list(table.column(name).to_pylist()) if name in table.schema.names else []
