"""Two releases or configurations, opened so that a question can be asked of mixtures of both.

Rows are taken as the store holds them, vectors included, and vectors of questions from the call
cache: nothing here calls a model.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_pipeline.calls import CallCache
from rag_pipeline.calls.recording import RecordingCache
from rag_pipeline.config import Lexical
from rag_pipeline.datamodels import GoldSpan, ScoredChunk
from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.imports import import_lancedb
from rag_pipeline.indexing import read_documents
from rag_pipeline.models.embedding import embed_tokens
from rag_pipeline.models.providers import open_embedder
from rag_pipeline.release.candidate import settings_of
from rag_pipeline.release.manifest import load
from rag_pipeline.release.settings import ReleasedSettings, read_settings
from rag_pipeline.search.index import Index
from rag_pipeline.search.lexical_index import build_lexical_index, built_with, open_lexical_index
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.search.reranking.models import passage_scorer
from rag_pipeline.search.retrieval import remembering, retrieve_all
from rag_pipeline.workspace import Workspace

MOST_ROWS = 50_000
"""Maximum number of chunks of an index that is built anew for a rerun."""


@dataclass(frozen=True)
class Side:
    """One of two that are compared: its rows, by document, and its settings."""

    name: str
    rows: pa.Table
    lexical: Lexical
    settings: ReleasedSettings
    documents_version: int | None

    @cached_property
    def by_document(self) -> dict[str, pa.Table]:
        """Return the rows of each document, by start."""
        ordered = self.rows.sort_by([("document_id", "ascending"), ("start", "ascending")])
        ids = ordered.column("document_id").to_pylist()
        firsts = [i for i, d in enumerate(ids) if i == 0 or ids[i - 1] != d]
        ends = [*firsts[1:], len(ids)]
        return {ids[a]: ordered.slice(a, b - a) for a, b in zip(firsts, ends, strict=True)}


@dataclass(frozen=True, slots=True)
class Mixture:
    """What a rerun asks: which side the settings and each document's rows are of."""

    rows: Mapping[str, Side]
    """By document id, whose rows it has; a document that is left out has none."""
    settings: ReleasedSettings
    lexical: Lexical
    key: tuple[Any, ...] = field(default=())
    """What tells its index from those of other mixtures."""


def open_side(workspace: Workspace, name: str) -> Side:
    """Open a configuration's last run, or a release; raise StoreError where it is not there."""
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
    if pinned.rows > MOST_ROWS:
        raise StoreError(
            f"{config.corpus}: {name} has {pinned.rows:,} chunks; reruns build indexes of at most "
            f"{MOST_ROWS:,}. `rag explain` says what became of a question under each configuration"
        )
    table = workspace.store.table(pinned.vector_table, None).open(pinned.vector_version)
    lexical = config.lexical
    if pinned.lexical_path is not None:
        lexical = built_with(workspace.store.local_folder(pinned.lexical_path))
    rows = table.search().to_arrow()
    return Side(name, rows, lexical, settings, pinned.documents_version)


class _Unasking(Workspace):
    """A workspace whose models answer what they have answered before, and nothing else."""

    @cached_property
    def cache(self) -> CallCache:
        return RecordingCache(self.store.calls_path)


class Reruns(AbstractContextManager["Reruns"]):
    """Asks questions of mixtures; the indexes that it builds go when it ends."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = _Unasking(workspace.config)
        self._folder = tempfile.TemporaryDirectory(prefix="rag-why-")
        self._built: dict[tuple[Any, ...], Index] = {}

    def __exit__(self, *_: object) -> None:
        self._built.clear()
        self._folder.cleanup()

    def ask(self, mixture: Mixture, query: str) -> list[ScoredChunk]:
        """Return what a mixture finds; raise UnknownReplyError where that needs a call."""
        settings = mixture.settings
        embedder = open_embedder(self._workspace.config.located(settings.embedding))
        cache = self._workspace.cache
        embed = remembering(lambda texts: embed_tokens(texts, embedder, cache, "query"))
        chats = settings.asked_by_reranker()
        score = passage_scorer(self._workspace, settings.reranker, chats=chats)
        index = self._index(mixture)
        found = retrieve_all(index, [query], settings.retriever, settings.reranker, embed, score)
        return next(found).chunks

    def _index(self, mixture: Mixture) -> Index:
        engine = mixture.settings.retriever.lexical_engine
        key = (*mixture.key, engine, mixture.lexical)
        if key not in self._built:
            folder = Path(self._folder.name) / str(len(self._built))
            parts = [side.by_document[d] for d, side in mixture.rows.items()]
            rows = pa.concat_tables(parts, promote_options="default")
            table = import_lancedb().connect(folder).create_table("rows", rows)
            lexical = None
            if engine is not None:
                build_lexical_index(engine, rows.to_batches(), mixture.lexical, folder / "lexical")
                lexical = open_lexical_index(folder / "lexical")
            self._built[key] = Index.open(table, lexical)
        return self._built[key]


def gold_of(
    workspace: Workspace, query_ids: Sequence[str], side: Side
) -> dict[str, list[GoldSpan]]:
    """Return where a side's documents hold the gold text of some queries of today.

    A span whose text the side's document does not hold, letter for letter, is left out.
    """
    wanted = [q for q in load_queries(workspace) if q.query_id in set(query_ids)]
    ids = sorted({s.document_id for q in wanted for s in q.gold_spans})
    today = {d.document_id: d.text for d in read_documents(workspace, ids)}
    then = today
    if side.documents_version is not None:
        read = read_documents(workspace, ids, side.documents_version)
        then = {d.document_id: d.text for d in read}
    found: dict[str, list[GoldSpan]] = {}
    for query in wanted:
        for span in query.gold_spans:
            text = today.get(span.document_id, "")[span.start : span.end]
            theirs = then.get(span.document_id, "")
            same = bool(text) and theirs[span.start : span.end] == text
            start = span.start if same else theirs.find(text) if text else -1
            if start >= 0:
                moved = GoldSpan(span.document_id, start, start + len(text))
                found.setdefault(query.query_id, []).append(moved)
    return found


def same_rows(one: pa.Table | None, other: pa.Table | None) -> bool:
    """Tell whether two documents' rows are the same chunks with contexts and vectors."""
    if one is None or other is None or len(one) != len(other):
        return one is other
    names = [n for n in ("start", "end", "text", "context", "title", "vector", "token_vectors")
             if n in one.schema.names or n in other.schema.names]  # fmt: skip
    if any(n not in one.schema.names or n not in other.schema.names for n in names):
        return False
    return all(one.column(n).to_pylist() == other.column(n).to_pylist() for n in names)


def differing(one: Side, other: Side) -> list[str]:
    """Return the documents whose rows differ, or that only one side has."""
    every = sorted({*one.by_document, *other.by_document})
    return [d for d in every if not same_rows(one.by_document.get(d), other.by_document.get(d))]


def column_of(table: pa.Table, name: str) -> list[Any]:
    """Return a column of a document's rows; [] where it has none."""
    return list(table.column(name).to_pylist()) if name in table.schema.names else []
