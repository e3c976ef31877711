"""What a run would do, followed through the steps whose input it would change first.

`planning` compares each table with the one before it as that is now. Here the documents that a
step would change are carried on to the steps after it, and loaded documents are chunked in
memory, so that the texts to embed are counted before anything is spent.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from rag_pipeline.calls import call_key
from rag_pipeline.chunking import chunk, read_given_chunks
from rag_pipeline.cli.payees import chat_of, paid_model, payee_of
from rag_pipeline.cli.questions import judge_of, judging, recording, reranking
from rag_pipeline.config import (
    Configuration,
    ContextAwareRetriever,
    CorpusConfig,
    GivenChunking,
    LLMContext,
    PassageReranker,
    SemanticChunking,
)
from rag_pipeline.contextualization import (
    contextualize,
    contextualize_with_model,
    is_too_long,
)
from rag_pipeline.costs import USUAL_OUTPUT, Tokens, estimate_tokens
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document, Query
from rag_pipeline.embedding import call_keys, embed
from rag_pipeline.errors import DocumentError, ProviderError
from rag_pipeline.evaluation import runs
from rag_pipeline.indexing import SHARDED_ASSETS, open_stage, plan, plan_documents, read_documents
from rag_pipeline.planning import Step, plan_step, steps, upstream
from rag_pipeline.providers import Embedder, Vectors, open_embedder
from rag_pipeline.queries import read_queries, resolve_queries
from rag_pipeline.retrieval import read_question
from rag_pipeline.workspace import Workspace

MOST_CHARACTERS = 3_000_000
"""How much text of a chunking is looked into; of a larger corpus, counts are scaled up."""

RERANKING = "reranking"
"""A part of a retrieval run that is forecast by itself, being another model's."""

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
    asks: int | None = 0
    """Prompts that would be sent to a chat model."""
    model: str = ""
    """The model that would be paid for them, "" where none is."""
    tokens: Tokens = field(default_factory=Tokens)
    usd: float | None = 0.0
    """None where the model's price or the calls are not known."""


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
    keys: dict[bytes, Tokens] = field(default_factory=dict)
    chunks_known: bool = True
    keys_known: bool = True
    exact: bool = True
    scale: float = 1.0


class _NotEmbeddedError(Exception):
    """The chunks of a document depend on sentences that no model has embedded yet."""


def forecast(workspace: Workspace) -> list[Forecast]:
    """Return what a run would do, step by step in its order; build and embed nothing."""
    config = workspace.config
    workspace.cache.refresh()
    todo = _documents_to_do(workspace)
    texts: dict[Step, _Texts] = {}
    for step in todo:
        if step.asset == "chunks":
            texts |= _look_into(workspace, step.partition or "", todo)
    queries = _queries(workspace, todo[_DOCUMENTS])
    texts_of_queries = [query.query for query in queries]
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
                asked, known.exact = _asked(workspace, configuration, texts_of_queries, stays)
                embedder = workspace.embedder(configuration.embedding)
                known.keys = _spread(asked, call_keys(asked, embedder, "query"))
            elif runs_now and judge_of(config, step.asset) is not None:
                run, answers = (Step(a, step.partition) for a in ("retrieval_run", "answers"))
                asks = judging(
                    workspace,
                    step,
                    queries,
                    run_stays=not found[run].runs,
                    answers_stay=answers not in found or not found[answers].runs,
                )
                known.keys_known = asks is not None
                known.keys, known.exact = (dict(asks.keys), asks.exact) if asks else ({}, False)
        new = [key for key in known.keys if key not in answered]
        missing = set(new) - workspace.cache.known(new)
        answered |= missing
        tokens = sum((known.keys[key] for key in missing), Tokens()) * known.scale
        count = round(len(missing) * known.scale) if known.keys_known else None
        by_chat = chat_of(config, step) is not None
        payee = paid_model(workspace, step) if runs_now else None
        usd: float | None = 0.0
        if payee is not None:
            price = workspace.ledger.prices.price(payee.provider, payee.model)
            usd = None if price is None or count is None else price.usd(tokens, payee.batch)
        found[step] = Forecast(
            step,
            runs_now,
            *counts,
            chunks=round(known.chunks * known.scale) if known.chunks_known else None,
            calls=0 if by_chat else count,
            exact=known.exact and known.scale == 1.0,
            asks=count if by_chat else 0,
            model=f"{payee.provider} {payee.model}" if payee else "",
            tokens=tokens,
            usd=usd,
        )
        if step.asset == "retrieval_run" and runs_now:
            rerank = _reranking(workspace, step, queries, answered)
            if rerank is not None:
                found[rerank.step] = rerank
    return list(found.values())


def _reranking(
    workspace: Workspace, step: Step, queries: Sequence[Query], answered: set[bytes]
) -> Forecast | None:
    """Return what a retrieval run would ask of a reranker that is paid or asked by prompts."""
    config = workspace.config
    configuration = config.configuration(step.partition or "")
    settings = config.rerankers[configuration.reranker]
    if not isinstance(settings, PassageReranker):
        return None
    chat = config.reranker_chat(settings)
    payee = payee_of(workspace, chat or settings)
    if payee is None and chat is None:
        return None
    asks = reranking(workspace, configuration, queries)
    new = {k: t for k, t in (asks.keys if asks else {}).items() if k not in answered}
    answered |= set(new)
    tokens = sum(new.values(), Tokens())
    usd: float | None = 0.0
    if payee is not None:
        price = workspace.ledger.prices.price(payee.provider, payee.model)
        usd = None if price is None or asks is None else price.usd(tokens, payee.batch)
    return Forecast(
        Step(RERANKING, step.partition),
        runs=True,
        exact=False,
        asks=None if asks is None else len(new),
        model=f"{payee.provider} {payee.model}" if payee else "",
        tokens=tokens,
        usd=usd,
    )


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
                known.keys.update(sentences)
            if chunks is None:
                known.chunks_known = False
                known.keys_known = known.keys_known and step.asset != "vector_index"
                continue
            known.chunks += len(chunks)
            if step.asset == "vector_index":
                contexts = _contexts(workspace, step, document, chunks)
                keys = _vector_keys(workspace, step.partition or "", document, contexts.chunks)
                known.keys.update(keys)
                known.exact = known.exact and not contexts.calls
            elif step.asset == "contextualized_chunks":
                known.keys.update(_contexts(workspace, step, document, chunks).calls)
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
) -> Callable[[Document], tuple[dict[bytes, Tokens], list[Chunk] | None]]:
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
        embedder = open_embedder(config.located(config.sentence_embedding(settings)))

    def known_vectors(keys: dict[bytes, Tokens], texts: Sequence[str]) -> Vectors:
        assert embedder is not None
        keys.update(_spread(texts, call_keys(texts, embedder)))
        if len(workspace.cache.known(list(keys))) < len(keys):
            raise _NotEmbeddedError
        return embed(texts, embedder, workspace.cache)

    def chunk_one(document: Document) -> tuple[dict[bytes, Tokens], list[Chunk] | None]:
        keys: dict[bytes, Tokens] = {}
        vectors = partial(known_vectors, keys) if embedder else None
        try:
            return keys, chunk(document, settings, embed=vectors, given=given)
        except DocumentError:
            return keys, []
        except _NotEmbeddedError:
            return keys, None

    return chunk_one


@dataclass(slots=True)
class _Contexts:
    """Chunks with their contexts, and the calls that would have to be made for them first."""

    chunks: Sequence[ContextualizedChunk]
    calls: dict[bytes, Tokens] = field(default_factory=dict)


def _contexts(
    workspace: Workspace, step: Step, document: Document, chunks: Sequence[Chunk]
) -> _Contexts:
    """Contextualize as far as that costs nothing.

    A chunk whose context is yet to be written stands with one of the usual length.
    """
    settings = workspace.config.contextualizers[(step.partition or "").split(".")[1]]
    if not isinstance(settings, LLMContext):
        return _Contexts(contextualize(document, chunks, settings))
    chat = workspace.config.chat(settings.chat)
    calls: dict[bytes, Tokens] = {}

    ask = recording(chat, workspace.cache, calls)
    (made,) = contextualize_with_model([(document, chunks)], settings, chat, ask).documents
    if not isinstance(made, ProviderError):
        return _Contexts(made)
    if is_too_long(document, chunks, settings, chat) and len(calls) < len(chunks):
        # Its summaries come first: until then the chunks' prompts are known by their number.
        window = Tokens(chat.context_window - chat.max_output_tokens, 0, USUAL_OUTPUT)
        calls.update({call_key("expected", settings.chat, c.chunk_id): window for c in chunks})
    usual = "x" * min(settings.max_characters, 4 * USUAL_OUTPUT)
    return _Contexts([ContextualizedChunk(chunk, usual) for chunk in chunks], calls)


def _vector_keys(
    workspace: Workspace, partition: str, document: Document, chunks: Sequence[ContextualizedChunk]
) -> dict[bytes, Tokens]:
    embedder = workspace.embedder(partition.split(".")[2])
    texts = [c.indexed_text for c in chunks]
    keys = call_keys(texts, embedder, "document", [document.document_id] * len(texts))
    return _spread(texts, keys)


def _spread(texts: Sequence[str], keys: Sequence[bytes]) -> dict[bytes, Tokens]:
    """Return the keys with equal shares of the distinct texts' tokens."""
    total = sum(estimate_tokens(text) for text in set(texts))
    return dict.fromkeys(keys, Tokens(-(-total // max(1, len(keys)))))


def _queries(workspace: Workspace, documents: _Todo) -> list[Query]:
    """Return the queries that would be searched with, as far as their gold spans are known."""
    if not documents.pending and not documents.gone and runs.queries_are_current(workspace):
        return runs.load_queries(workspace)
    path = workspace.config.queries_path
    records = read_queries(path) if path else []
    if documents.pending:
        return [
            Query(
                r.query_id,
                r.query,
                entities={str(kind): groups for kind, groups in r.entities.items()},
            )
            for r in records
        ]

    def text_of(document_id: str) -> str | None:
        found = next(iter(read_documents(workspace, [document_id])), None)
        return found.text if found and document_id not in documents.gone else None

    return resolve_queries(records, text_of)[0]


def _asked(
    workspace: Workspace, configuration: Configuration, queries: Sequence[str], stays: bool
) -> tuple[Sequence[str], bool]:
    """Return what of the queries would be embedded, and whether that is certain.

    A retriever may split a query by what its index knows of the documents: that is certain where
    the index stays, or where a query has one part.
    """
    settings = workspace.config.retrievers[configuration.retriever]
    over = settings.over if isinstance(settings, ContextAwareRetriever) else settings
    # boosted queries have words that are not known before
    boosts = isinstance(settings, ContextAwareRetriever) and settings.variants > 0
    if not getattr(over, "split_query", False):
        return queries, not boosts
    if not stays:
        return queries, not boosts and not any(_PARTS.search(q.strip()) for q in queries)
    index = runs.open_index(workspace, runs.pin(workspace, configuration))
    return [read_question(index, query, over).ask for query in queries], not boosts
