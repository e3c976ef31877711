"""What models would be sent of each document: to cut it, to contextualize it, to embed it.

The documents that a step would change are carried on to the steps after it, and loaded documents
are chunked in memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rag_pipeline.calls import call_key
from rag_pipeline.calls.costs import USUAL_OUTPUT, Tokens, estimate_tokens
from rag_pipeline.chunking import chunk
from rag_pipeline.cli.questions import recording
from rag_pipeline.config import CorpusConfig, LLMContext
from rag_pipeline.contextualization import contextualize, contextualize_with_model, is_too_long
from rag_pipeline.datamodels import Chunk, ContextualizedChunk, Document, Prompt, Reply
from rag_pipeline.errors import DocumentError, ProviderError
from rag_pipeline.indexing import open_stage, plan, plan_documents, read_documents
from rag_pipeline.models.embedding import call_keys, embed
from rag_pipeline.models.providers import Vectors, open_embedder
from rag_pipeline.pipeline.planning import Step, steps, upstream
from rag_pipeline.workspace import Workspace

MOST_CHARACTERS = 3_000_000
"""How much text of a chunking is looked into; of a larger corpus, counts are scaled up."""

DOCUMENTS = Step("documents")


@dataclass(frozen=True, slots=True)
class Todo:
    """The documents that a step would work on and those that it would drop."""

    pending: frozenset[str]
    gone: frozenset[str]
    current: int


def documents_to_do(workspace: Workspace) -> dict[Step, Todo]:
    """Return what each table of documents' rows would have to do, in the order of the flow."""
    config = workspace.config
    first = plan_documents(workspace)
    todo = {DOCUMENTS: Todo(frozenset(first.stale), frozenset(first.orphaned), first.current)}
    for step in steps(config):
        if not step.row.sharded:
            continue
        (before,) = (todo[s] for s in upstream(config, step))
        stage = open_stage(workspace, step.asset, step.partition or "")
        own = plan(stage)
        here = set(stage.table.state()) | set(stage.quarantine.state())
        gone = frozenset((before.gone & here) | set(own.orphaned))
        carried = {d for d in before.pending if stage.covers(d)}
        pending = frozenset((set(own.stale) | carried) - before.gone)
        todo[step] = Todo(pending, gone, len(here - pending - gone))
    return todo


@dataclass(slots=True)
class Texts:
    """What was found out about one step's texts; `keys` in order, each once."""

    chunks: int = 0
    keys: dict[bytes, Tokens] = field(default_factory=dict)
    chunks_known: bool = True
    keys_known: bool = True
    exact: bool = True
    scale: float = 1.0


def look_into(workspace: Workspace, chunking: str, todo: Mapping[Step, Todo]) -> dict[Step, Texts]:
    """Chunk the loaded documents that any table of one chunking would work on."""
    unloaded = todo[DOCUMENTS].pending
    mine = [s for s in todo if (s.partition or "").split(".")[0] == chunking]
    texts = {s: Texts() for s in mine}
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


def spread(texts: Sequence[str], keys: Sequence[bytes]) -> dict[bytes, Tokens]:
    """Return the keys with equal shares of the distinct texts' tokens."""
    total = sum(estimate_tokens(text) for text in set(texts))
    return dict.fromkeys(keys, Tokens(-(-total // max(1, len(keys)))))


def _sample(workspace: Workspace, document_ids: Sequence[str]) -> Iterator[tuple[Document, float]]:
    """Yield documents up to MOST_CHARACTERS, and what counts over them are to be scaled by."""
    characters = 0
    for seen, document in enumerate(read_documents(workspace, document_ids), 1):
        characters += len(document.text)
        enough = characters >= MOST_CHARACTERS
        yield document, len(document_ids) / seen if enough else 1.0
        if enough:
            return


class _NotAskedError(Exception):
    """The chunks of a document depend on what no model has been asked yet."""


@dataclass(frozen=True, slots=True)
class _KnownModels:
    """Notes the calls of a chunking method, and answers those that were answered before."""

    workspace: Workspace
    keys: dict[bytes, Tokens]

    @property
    def config(self) -> CorpusConfig:
        return self.workspace.config

    def vectors(self, texts: Sequence[str], embedding: str | None) -> Vectors:
        settings = self.config.located(self.config.sentence_embedding(embedding))
        embedder, cache = open_embedder(settings), self.workspace.cache
        self.keys.update(spread(texts, call_keys(texts, embedder)))
        if len(cache.known(list(self.keys))) < len(self.keys):
            raise _NotAskedError
        return embed(texts, embedder, cache)

    def ask(self, prompts: Sequence[Prompt], chat: str) -> list[Reply | ProviderError]:
        settings = self.config.chat(chat)
        replies = recording(settings, self.workspace.cache, self.keys)(prompts)
        if any(isinstance(reply, ProviderError) for reply in replies):
            raise _NotAskedError
        return replies


def _chunker(
    workspace: Workspace, chunking: str
) -> Callable[[Document], tuple[dict[bytes, Tokens], list[Chunk] | None]]:
    """Return a function from a document to the keys of its sentences and to its chunks.

    The chunks are None where they depend on sentences that were not embedded before.
    """
    settings = workspace.config.chunkings[chunking]

    def chunk_one(document: Document) -> tuple[dict[bytes, Tokens], list[Chunk] | None]:
        keys: dict[bytes, Tokens] = {}
        try:
            return keys, chunk(document, settings, _KnownModels(workspace, keys))
        except DocumentError:
            return keys, []
        except _NotAskedError:
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
    return spread(texts, keys)
