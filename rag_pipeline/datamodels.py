"""Define the frozen data classes that the steps exchange.

Offsets count the Unicode code points of `Document.text`. They are half open: `text[start:end]`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

MetadataValue = str | int | float | bool
Span = tuple[int, int]
"""Half-open offsets into a text."""
Vectors = npt.NDArray[np.float32]
"""An array of shape (texts, dimension). Each row has unit length."""


@dataclass(frozen=True, slots=True)
class Document:
    """One decoded document.

    `document_id` is the path or key relative to the source root in POSIX form. `content_hash` is a
    SHA-256 (hex) that changes with the raw bytes, the parser's version, the sidecar file and
    missing extras. For plain text and Markdown, `text` is exactly the decoded file. `page_map` is a
    packed `loading.page_map.PageMap`, or None for formats without pages.
    """

    document_id: str
    content_hash: str
    text: str
    title: str = ""
    media_type: str = "text/plain"
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    page_map: bytes | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a document: `text` is `document.text[start:end]`."""

    document_id: str
    start: int
    end: int
    text: str

    @property
    def chunk_id(self) -> str:
        """Return `{document_id}#{start}-{end}`."""
        return f"{self.document_id}#{self.start}-{self.end}"


@dataclass(frozen=True, slots=True)
class ContextualizedChunk:
    """A chunk with its context: a short text about its place in the document."""

    chunk: Chunk
    context: str

    @property
    def indexed_text(self) -> str:
        """Return the text to embed: the chunk, a blank line and the context.

        The chunk comes first, because a model with a token limit ignores the end of a text.
        """
        return f"{self.chunk.text}\n\n{self.context}" if self.context else self.chunk.text


@dataclass(frozen=True, slots=True)
class GoldSpan:
    """A span of a document that answers a query."""

    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Query:
    """A query with its gold spans, gold documents and expected entities.

    Each of `gold_documents` answers the query as a whole document, without marked spans. `grades`
    maps a document's id to the grade of its gold, if the grade is higher than 1. `entities` maps an
    entity type to groups of acceptable variants. An answer must contain the entities of
    `critical_types`. `tags` name slices. Queries of one `group` count as one in intervals. Without
    groups, queries about one document count as one. `rag questions` makes `synthetic` queries.
    """

    query_id: str
    query: str
    gold_spans: tuple[GoldSpan, ...] = ()
    answer: str | None = None
    entities: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    critical_types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    group: str | None = None
    gold_documents: tuple[str, ...] = ()
    synthetic: bool = False
    grades: Mapping[str, int] = field(default_factory=dict)

    @property
    def answering_documents(self) -> tuple[str, ...]:
        """Return the documents of the gold spans and the gold documents."""
        spans = (span.document_id for span in self.gold_spans if span.end > span.start)
        return tuple(dict.fromkeys((*spans, *self.gold_documents)))


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A retrieved chunk with its score on the retriever's scale. Higher is better.

    `token_signs` are the packed signs of the chunk's token vectors, or b"" if no index stores
    signs. The assistant sets `corpus`. `copies` names documents with the same text.
    """

    chunk_id: str
    document_id: str
    start: int
    end: int
    text: str
    score: float
    context: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    token_signs: bytes = field(default=b"", compare=False, repr=False)
    corpus: str = ""
    copies: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the chunk as plain JSON values, without `token_signs` and `corpus`."""
        shown = (f.name for f in fields(self) if f.name not in ("token_signs", "corpus"))
        return {name: getattr(self, name) for name in shown} | {"metadata": dict(self.metadata)}


Kind = Literal["clause_lookup", "comparison", "definition", "comprehensive", "general"]
"""The form of answer that a query asks for."""
Weights = npt.NDArray[np.float32]
"""An array of shape (token ids,): the rarity of each token in an index."""
Mask = npt.NDArray[np.bool_]
"""An array of shape (chunks,): whether a search may return each chunk of an opened index."""
Boost = Callable[[str, Sequence[str]], Sequence[str]]
"""A function of a document's id and its best chunks' texts that returns boosted queries, best
first."""


PUBLIC = "public"
"""The label of documents that every caller may see."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The labels of a caller, and the corpora that the caller may name. None means all.

    A caller sees the public documents, and the documents with one of the caller's `labels`.
    """

    labels: frozenset[str] | None = None
    corpora: frozenset[str] | None = None

    def sees(self, access: frozenset[str]) -> bool:
        """Return whether the caller may see a document with these labels."""
        return self.labels is None or PUBLIC in access or not self.labels.isdisjoint(access)


OPERATOR, ANYBODY = Caller(), Caller(frozenset())
"""A caller who sees everything, and a caller without labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A query with the settings of its search."""

    query: str
    k: int | None = None
    """Number of chunks to return, by default the retriever's `k`."""
    deepen: bool = True
    """Whether `k` may exceed the retriever's `k`. Scores then differ from measured scores."""
    where: str | None = None
    """A filter in SQL over the index's columns, applied before anything is ranked."""
    document_id: str | None = None
    """The only document to search, by default all documents."""
    caller: Caller = OPERATOR
    """The caller. Only documents that the caller may see are searched and counted."""
    rerank: bool = True
    discover: bool = False
    """Whether the result lists the documents that the single pass found."""
    tokens: bool = False
    """Whether chunks carry the token signs that the index stores."""
    stages: tuple[int, int] | None = None
    """The values of `boosted_files` and `variants`, by default the retriever's values."""
    is_neutral: bool = False
    """Whether the query is a phrase of the assistant instead of a user's question."""
    boost: Boost | None = field(default=None, compare=False)
    """A function that makes boosted queries, by default from words of the best chunks."""
    allowed: Mask | None = field(default=None, compare=False, repr=False)
    """The chunks that match `where`, if they are known."""


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document with the score of its best chunk (MaxP). The assistant sets `corpus`.

    Source: Dai and Callan, Deeper Text Understanding for IR, SIGIR 2019.
    """

    document_id: str
    title: str
    score: float
    corpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A query with its found chunks, and the settings for an answer from these chunks.

    The callers of answer methods set `kind` and `contexts`.
    """

    query: str
    search_text: str = ""
    """The query without the part that names a document."""
    chunks: Sequence[ScoredChunk] = ()
    documents: Sequence[FoundDocument] = ()
    """The documents of the single pass, best first, if the request sets `discover`."""
    boosted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The boosted queries by document."""
    token_weights: Weights | None = field(default=None, compare=False, repr=False)
    """The token weights of the index, if the chunks carry token signs."""
    kind: Kind = "general"
    contexts: int = 0
    """Number of chunks to quote from, unless they hardly match the query. 0 means all chunks."""
    rerank_error: str | None = None
    """The reranker's error, or None. After an error, the chunks keep the retriever's order."""
    boost_error: str | None = None
    """The error that prevented the search for boosted queries, or None."""
    latency_ms: float | None = None
    """Time of the search in milliseconds, or None if many queries were reranked together."""

    def __post_init__(self) -> None:
        """Use the whole query as `search_text` by default."""
        if not self.search_text:
            object.__setattr__(self, "search_text", self.query)


@dataclass(frozen=True, slots=True)
class Citation:
    """The document span that a sentence of an answer rests on, with its text.

    `number` is the reference in the answer's text, counted from 1. `supports` is False if the cited
    text does not support the sentence.
    """

    number: int
    chunk_id: str
    document_id: str
    start: int
    end: int
    text: str
    supports: bool = True


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """The row of one document or side in a comparison.

    `document_id` is the side's name if the question names both sides. `number` is the number of
    the row's first citation, or None in an empty row.
    """

    document_id: str
    text: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations.

    `answered` is False if no chunk answers. `confidence` is a probability from 0 to 1, or None if
    the method estimates none. `problems` names wrong citations. `table` has a comparison's rows.
    `doubted` holds the sentences of `text` that no cited passage supports.
    """

    text: str
    answered: bool
    citations: tuple[Citation, ...] = ()
    confidence: float | None = None
    problems: tuple[str, ...] = ()
    table: tuple[ComparisonRow, ...] = ()
    doubted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of a call. `cached_tokens` counts input tokens from a prompt cache.

    `searches` counts the searches of rerankers that charge per search instead of per token.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    searches: int = 0

    def __post_init__(self) -> None:
        """Replace invalid counts from a server, such as negative numbers or texts, with 0."""
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value <= 10**9:
                object.__setattr__(self, name, 0)


Messages = Sequence[Mapping[str, str]]
"""The turns of a conversation in OpenAI's format, each with its `role` and `content`."""
Schema = Mapping[str, Any]
"""A JSON Schema."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a chat model.

    The model reads `system`, then the `examples` as turns (question, reply), then `prefix` and
    `user` as one message. Prompts can share a long `prefix`, such as a document, which the
    provider's prompt cache then serves. The reply's `data` is a value of the JSON `schema`, or one
    of the `choices`.
    """

    user: str
    system: str = ""
    prefix: str = ""
    schema: Schema | None = None
    choices: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the messages in OpenAI's format."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        examples = [
            {"role": role, "content": content}
            for turn in self.examples
            for role, content in zip(("user", "assistant"), turn, strict=True)
        ]
        return [*system, *examples, {"role": "user", "content": self.prefix + self.user}]


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. `data` is the value that the prompt's schema or choices ask for."""

    text: str
    data: Any
    usage: Usage


@dataclass(frozen=True, slots=True)
class Answered:
    """One query with its answer and the chunks that the answer was made from, best first."""

    query: Query
    contexts: Sequence[ScoredChunk]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Entity:
    """A fact in a text: its type, such as `date`, and the words that state it."""

    kind: str
    text: str


Level = Literal["high", "medium", "low", "none"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one context, with the judge's reason or ""."""

    level: Level
    used: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ContextJudgement:
    """The judgements of a query's contexts, best first, the missing information, and a summary."""

    contexts: tuple[Judged, ...]
    missing: tuple[str, ...] = ()
    overall: str = ""
