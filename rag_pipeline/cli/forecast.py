"""What a run would do, followed through the steps whose input it would change first.

`planning` compares each table with the one before it as that is now. Here the documents that a
step would change are carried on to the steps after it, and loaded documents are chunked in
memory, so that the texts to embed are counted before anything is spent.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rag_pipeline.calls import call_key
from rag_pipeline.chunking import chunk, read_given_chunks
from rag_pipeline.config import Configuration, CorpusConfig, GivenChunking, SemanticChunking
from rag_pipeline.contextualization import contextualize
from rag_pipeline.datamodels import Chunk, Document
from rag_pipeline.embedding import embed
from rag_pipeline.errors import DocumentError
from rag_pipeline.evaluation import runs
from rag_pipeline.indexing import SHARDED_ASSETS, open_stage, plan, plan_documents, read_documents
from rag_pipeline.planning import Step, plan_step, steps, upstream
from rag_pipeline.providers import Embedder, InputType, Vectors, open_embedder
from rag_pipeline.queries import read_queries, resolve_queries
from rag_pipeline.retrieval import read_question
from rag_pipeline.workspace import Workspace

MOST_CHARACTERS = 3_000_000
"""How much text of a chunking is looked into; of a larger corpus, counts are scaled up."""

_DOCUMENTS = Step("documents")
_PARTS = re.compile(r"[;:?!.\n]\s*\S")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do in one step.

    `stale`, `orphaned` and `current` count documents; `chunks` those that would be written, and
    `calls` the texts that would be sent to a model. The last two are None where they are known
    only once documents are loaded or sentences embedded, and not `exact` where they are scaled.
    """

    step: Step
    runs: bool
    stale: int = 0
    orphaned: int = 0
    current: int = 0
    chunks: int | None = 0
    calls: int | None = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class _Todo:
    """The documents that a step would work on and those that it would drop."""

    pending: frozenset[str]
    gone: frozenset[str]
    current: int


@dataclass(slots=True)
class _Texts:
    """What was found out about one step's texts; `keys` in order, each once."""

    chunks: int = 0
    keys: dict[bytes, None] = field(default_factory=dict)
    chunks_known: bool = True
    keys_known: bool = True
    exact: bool = True
    scale: float = 1.0


class _NotEmbeddedError(Exception):
    """The chunks of a document depend on sentences that no model has embedded yet."""


def forecast(workspace: Workspace) -> list[Forecast]:
    """Return what a run would do, step by step in its order; build and embed nothing."""
    config = workspace.config
    todo = _documents_to_do(workspace)
    texts: dict[Step, _Texts] = {}
    for step in todo:
        if step.asset == "chunks":
            texts |= _look_into(workspace, step.partition or "", todo)
    queries = _query_texts(workspace, todo[_DOCUMENTS])
    answered: set[bytes] = set()
    found: dict[Step, Forecast] = {}
    for step in steps(config):
        follows = any(found[before].runs for before in upstream(config, step))
        if step in todo:
            documents = todo[step]
            runs_now = bool(documents.pending or documents.gone)
            known = texts.get(step, _Texts())
            counts = len(documents.pending), len(documents.gone), documents.current
        else:
            runs_now = follows or plan_step(workspace, step).must_run
            counts = 0, 0, 0
            known = _Texts()
            if step.asset == "retrieval_run" and runs_now:
                configuration = config.configuration(step.partition or "")
                stays = not any(
                    found[before].runs
                    for before in upstream(config, step)
                    if before.asset != "queries"
                )
                asked, known.exact = _asked(workspace, configuration, queries, stays)
                embedder = workspace.embedder(configuration.embedding)
                known.keys = dict.fromkeys(_keys(asked, embedder, "query"))
        new = [key for key in known.keys if key not in answered]
        missing = set(new) - workspace.cache.known(new)
        answered |= missing
        found[step] = Forecast(
            step,
            runs_now,
            *counts,
            chunks=round(known.chunks * known.scale) if known.chunks_known else None,
            calls=round(len(missing) * known.scale) if known.keys_known else None,
            exact=known.exact and known.scale == 1.0,
        )
    return list(found.values())


def _documents_to_do(workspace: Workspace) -> dict[Step, _Todo]:
    """Return what each table of documents' rows would have to do, in the order of the flow."""
    config = workspace.config
    first = plan_documents(workspace)
    todo = {_DOCUMENTS: _Todo(frozenset(first.stale), frozenset(first.orphaned), first.current)}
    for step in steps(config):
        if step.asset not in SHARDED_ASSETS:
            continue
        (before,) = (todo[s] for s in upstream(config, step))
        stage = open_stage(workspace, step.asset, step.partition or "")
        own = plan(stage)
        here = set(stage.table.state()) | set(stage.quarantine.state())
        gone = frozenset((before.gone & here) | set(own.orphaned))
        carried = {d for d in before.pending if stage.covers(d)}
        pending = frozenset((set(own.stale) | carried) - before.gone)
        todo[step] = _Todo(pending, gone, len(here - pending - gone))
    return todo


def _look_into(
    workspace: Workspace, chunking: str, todo: Mapping[Step, _Todo]
) -> dict[Step, _Texts]:
    """Chunk the loaded documents that any table of one chunking would work on."""
    unloaded = todo[_DOCUMENTS].pending
    mine = [s for s in todo if (s.partition or "").split(".")[0] == chunking]
    texts = {s: _Texts() for s in mine}
    for step in mine:
        if todo[step].pending & unloaded:
            texts[step].chunks_known = texts[step].keys_known = False
    wanted = sorted(set().union(*(todo[s].pending for s in mine)) - unloaded)
    chunk_one = _chunker(workspace, chunking)
    for document, scale in _sample(workspace, wanted):
        sentences, chunks = chunk_one(document)
        for step in mine:
            known = texts[step]
            known.scale = scale
            if document.document_id not in todo[step].pending:
                continue
            if step.asset == "chunks":
                known.keys.update(dict.fromkeys(sentences))
            if chunks is None:
                known.chunks_known = False
                known.keys_known = known.keys_known and step.asset != "vector_index"
                continue
            known.chunks += len(chunks)
            if step.asset == "vector_index":
                keys = _vector_keys(workspace, step.partition or "", document, chunks)
                known.keys.update(dict.fromkeys(keys))
    return texts


def _sample(workspace: Workspace, document_ids: Sequence[str]) -> Iterator[tuple[Document, float]]:
    """Yield documents up to MOST_CHARACTERS, and what counts over them are to be scaled by."""
    characters = 0
    for seen, document in enumerate(read_documents(workspace, document_ids), 1):
        characters += len(document.text)
        enough = characters >= MOST_CHARACTERS
        yield document, len(document_ids) / seen if enough else 1.0
        if enough:
            return


def _chunker(
    workspace: Workspace, chunking: str
) -> Callable[[Document], tuple[list[bytes], list[Chunk] | None]]:
    """Return a function from a document to the keys of its sentences and to its chunks.

    The chunks are None where they depend on sentences that were not embedded before.
    """
    config: CorpusConfig = workspace.config
    settings = config.chunkings[chunking]
    given = None
    if isinstance(settings, GivenChunking):
        given = read_given_chunks(config.chunks_path(chunking))
    embedder: Embedder | None = None
    if isinstance(settings, SemanticChunking):
        embedder = open_embedder(config.sentence_embedding(settings))

    def known_vectors(keys: list[bytes], texts: Sequence[str]) -> Vectors:
        assert embedder is not None
        keys.extend(_keys(texts, embedder, "document"))
        if len(workspace.cache.known(keys)) < len(set(keys)):
            raise _NotEmbeddedError
        return embed(texts, embedder, workspace.cache)

    def chunk_one(document: Document) -> tuple[list[bytes], list[Chunk] | None]:
        keys: list[bytes] = []
        vectors = partial(known_vectors, keys) if embedder else None
        try:
            return keys, chunk(document, settings, embed=vectors, given=given)
        except DocumentError:
            return keys, []
        except _NotEmbeddedError:
            return keys, None

    return chunk_one


def _vector_keys(
    workspace: Workspace, partition: str, document: Document, chunks: Sequence[Chunk]
) -> list[bytes]:
    _, contextualizer, embedding = partition.split(".")
    settings = workspace.config.contextualizers[contextualizer]
    contextualized = contextualize(document, chunks, settings)
    embedder = workspace.embedder(embedding)
    return _keys((c.indexed_text for c in contextualized), embedder, "document")


def _query_texts(workspace: Workspace, documents: _Todo) -> list[str]:
    """Return the queries that would be searched with, as far as their gold spans are known."""
    if not documents.pending and not documents.gone and runs.queries_are_current(workspace):
        return [query.query for query in runs.load_queries(workspace)]
    path = workspace.config.queries_path
    records = read_queries(path) if path else []
    if documents.pending:
        return [record.query for record in records]

    def text_of(document_id: str) -> str | None:
        found = next(iter(read_documents(workspace, [document_id])), None)
        return found.text if found and document_id not in documents.gone else None

    return [query.query for query in resolve_queries(records, text_of)[0]]


def _asked(
    workspace: Workspace, configuration: Configuration, queries: Sequence[str], stays: bool
) -> tuple[Sequence[str], bool]:
    """Return what of the queries would be embedded, and whether that is certain.

    A retriever may split a query by what its index knows of the documents: that is certain where
    the index stays, or where a query has one part.
    """
    settings = workspace.config.retrievers[configuration.retriever]
    if not getattr(settings, "split_query", False):
        return queries, True
    if not stays:
        return queries, not any(_PARTS.search(query.strip()) for query in queries)
    index = runs.open_index(workspace, runs.pin(workspace, configuration))
    return [read_question(index, query, settings).ask for query in queries], True


def _keys(texts: Iterable[str], embedder: Embedder, input_type: InputType) -> list[bytes]:
    return [call_key(f"embed:{input_type}", embedder.identity, text) for text in texts]
