"""Frozen data classes that the steps exchange.

Offsets are Unicode code points of `Document.text`, half open: `text[start:end]`.
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
"""Shape (texts, dimension), unit length."""


@dataclass(frozen=True, slots=True)
class Document:
    """One raw document, decoded.

    `document_id` is the path or key relative to the source root in POSIX form. `content_hash` is
    the SHA-256 (hex) of the raw bytes, with the parser's version if it is not the first. `text` of
    plain text and Markdown is exactly the decoded file. `page_map` is a packed
    `loading.page_map.PageMap`, None for formats without pages.
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
        """Return the text to embed: chunk, blank line, context.

        The chunk comes first because a model with a token limit ignores the end.
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
    """A query with its gold.

    `gold_documents` answer as a whole, without marked spans. `entities` maps an entity type to
    groups of acceptable variants. An answer must get the `critical_types` right. `tags` name
    slices. Queries of one `group`, or else about one document, count as one in intervals.
    `rag questions` makes `synthetic` queries from the documents.
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

    @property
    def answering_documents(self) -> tuple[str, ...]:
        """Return the documents of the gold spans and the gold documents."""
        spans = (span.document_id for span in self.gold_spans if span.end > span.start)
        return tuple(dict.fromkeys((*spans, *self.gold_documents)))


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A retrieved chunk with its score: higher is better, on the scale of its retriever.

    Made by `search.ranking`; read by everything after it. `token_signs` are the packed signs of its
    tokens' vectors, b"" where no index keeps them. The assistant adds `corpus`, the name of the
    corpus that the chunk is from.
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

    def record(self) -> dict[str, Any]:
        """Return the chunk as plain JSON values, without `token_signs` and `corpus`."""
        shown = (f.name for f in fields(self) if f.name not in ("token_signs", "corpus"))
        return {name: getattr(self, name) for name in shown} | {"metadata": dict(self.metadata)}


Kind = Literal["clause_lookup", "comparison", "definition", "comprehensive", "general"]
"""The form of answer that a query asks for."""
Weights = npt.NDArray[np.float32]
"""The rarity of each token id in an index."""
Mask = npt.NDArray[np.bool_]
"""Whether each chunk of an opened index may be found."""
Boost = Callable[[str, Sequence[str]], Sequence[str]]
"""From a document's id and its best chunks' texts to boosted queries for it, the best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A query and how to search for it.

    Made by `Corpus`, the assistant and the evaluation; read by `search.retrieval.Searcher` and by
    the corpora of the assistant.
    """

    query: str
    k: int | None = None
    """Number of chunks to return; by default the retriever's `k`."""
    deepen: bool = True
    """Whether a `k` above the retriever's counts; the scores then differ from the measured ones."""
    where: str | None = None
    """A filter in SQL over the index's columns, applied before anything is ranked."""
    document_id: str | None = None
    """The only document that is searched."""
    rerank: bool = True
    discover: bool = False
    """Whether the result lists the documents that the single pass found."""
    tokens: bool = False
    """Whether chunks carry the token signs that the index keeps."""
    stages: tuple[int, int] | None = None
    """`boosted_files` and `variants` in place of the retriever's."""
    cacheable: bool = False
    """Whether many questions search for this query, so that its result is kept."""
    boost: Boost | None = field(default=None, compare=False)
    """Makes boosted queries; by default they are made of the words of the best chunks."""
    allowed: Mask | None = field(default=None, compare=False, repr=False)
    """The chunks that `where` keeps, if the caller knows them."""


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document with the score of its best chunk (MaxP); the assistant adds its `corpus`.

    Dai & Callan, Deeper Text Understanding for IR, SIGIR 2019.
    """

    document_id: str
    title: str
    score: float
    corpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A query with the chunks that were found for it, and how to answer from them.

    Made by `search.retrieval.Searcher`; merged by the assistant; read by answer methods and by the
    evaluation. The caller of an answer method sets `kind` and `contexts`.
    """

    query: str
    search_text: str = ""
    """The part of the query that was searched for: all of it unless a part names a document."""
    chunks: Sequence[ScoredChunk] = ()
    documents: Sequence[FoundDocument] = ()
    """The documents of the single pass, best first, if they were to be discovered."""
    boosted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The boosted queries by document."""
    token_weights: Weights | None = field(default=None, compare=False, repr=False)
    """The token weights of the index, where the chunks carry token signs."""
    kind: Kind = "general"
    contexts: int = 0
    """Number of chunks that quotes come from, unless these hardly meet the query; 0 is all."""
    rerank_error: str | None = None
    """Why the chunks are in the retriever's order although a reranker is set."""
    boost_error: str | None = None
    """Why boosted queries were not searched."""
    latency_ms: float | None = None
    """None where many queries were reranked together."""

    def __post_init__(self) -> None:
        """Search for the whole query where no part of it is given."""
        if not self.search_text:
            object.__setattr__(self, "search_text", self.query)


@dataclass(frozen=True, slots=True)
class Citation:
    """A span of a document, with its text, that a sentence of an answer rests on.

    `number`, from 1, is the reference in the answer's text. `supports` is False where the cited
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
    """One document's row of a comparison; `number` is its first citation, None for an empty row."""

    document_id: str
    text: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations.

    Made by an answer method or the assistant's model; read by the evaluation and the assistant.
    `answered` is False where nothing in the chunks answers. `confidence` is 0..1, None where the
    method gives none. `problems` names wrong citations. `table` holds the rows of a comparison.
    """

    text: str
    answered: bool
    citations: tuple[Citation, ...] = ()
    confidence: float | None = None
    problems: tuple[str, ...] = ()
    table: tuple[ComparisonRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call; a prompt cache served `cached_tokens` of the `input_tokens`.

    Some rerankers charge by `searches` instead of tokens.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    searches: int = 0

    def __post_init__(self) -> None:
        """Replace invalid counts of a server, such as negative numbers or texts, by 0."""
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
    `user` as one message. The provider's prompt cache serves a long `prefix` that prompts share,
    such as a document. The reply's `data` is a value of the JSON `schema`, or one of the `choices`.
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


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply; `data` is its value by the prompt's schema or choices."""

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
    """A fact in a text: its type and its words."""

    kind: str
    text: str


Level = Literal["high", "medium", "low", "none"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one context, with the judge's reason if it gives one."""

    level: Level
    used: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ContextJudgement:
    """The judgements of a query's contexts in order, the missing information, and a summary."""

    contexts: tuple[Judged, ...]
    missing: tuple[str, ...] = ()
    overall: str = ""
