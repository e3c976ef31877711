"""What flows between the stages: frozen data classes, and the Arrow schemas they are stored in.

Offsets are Unicode code points of `Document.text`, half open: `text[start:end]`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MetadataValue = str | int | float | bool
Span = tuple[int, int]
"""Half-open offsets into a text."""
Vectors = npt.NDArray[np.float32]
"""Shape (texts, dimension), unit length."""


@dataclass(frozen=True, slots=True)
class Document:
    """One raw document, decoded.

    `document_id` is the path or key relative to the source root in POSIX form; `content_hash`
    the SHA-256 (hex) of the raw bytes, or of that and the parser's version where that is not the
    first; `text` for plain text and Markdown exactly the decoded file. `page_map` is a packed
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
    """A chunk with the short text that says where it stands in its document."""

    chunk: Chunk
    context: str

    @property
    def indexed_text(self) -> str:
        """Return what is embedded: chunk, blank line, context.

        In this order, because a model that reads a limited number of tokens leaves out the end.
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
    """A question with what answers it.

    `gold_documents` are documents that answer as a whole, where nobody marked a span. `entities`
    maps an entity type to groups of acceptable variants; `critical_types` are the types that an
    answer must get right; `tags` name the slices that it belongs to. Questions of one `group`, else
    about the same document, count as one in intervals and verdicts. A `synthetic`
    question was made from the documents by `rag questions`, not asked by a person.
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
        """Return the documents that answer: those of gold spans, and those that are gold."""
        spans = (span.document_id for span in self.gold_spans if span.end > span.start)
        return tuple(dict.fromkeys((*spans, *self.gold_documents)))


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A retrieved chunk; `score` is higher for better, on the scale of what produced it.

    `token_signs` are its tokens' vectors as the packaged model's index keeps them; b"" elsewhere.
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

    def record(self) -> dict[str, Any]:
        """Return it as plain JSON values, without the vectors of its tokens."""
        shown = (f.name for f in fields(self) if f.name != "token_signs")
        return {name: getattr(self, name) for name in shown} | {"metadata": dict(self.metadata)}


@dataclass(frozen=True, slots=True)
class Citation:
    """What a sentence of an answer rests on: a span of a document, with its text.

    `number` is how the answer's text refers to it, from 1; `supports` is False where the cited
    text doesn't bear out what is said.
    """

    number: int
    chunk_id: str
    document_id: str
    start: int
    end: int
    text: str
    supports: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered from retrieved chunks, with its sources.

    `answered` is False where nothing in the chunks answers. `confidence` is 0..1, None where the
    method tells none. `problems` names what is wrong with the citations.
    """

    text: str
    answered: bool
    citations: tuple[Citation, ...] = ()
    confidence: float | None = None
    problems: tuple[str, ...] = ()


Kind = Literal["clause_lookup", "comparison", "definition", "comprehensive", "general"]
"""The form of answer that a question asks for."""
Weights = npt.NDArray[np.float32]
"""The rarity of each token id in an index."""


class ToAnswer(NamedTuple):
    """A question: what of it is searched for, what kind of answer it wants, its passages.

    `weights` are those of the tokens of the index that the passages are from; `query` is the whole
    question, "" where that is what is searched for. Quotes are of the `first` passages, and of the
    others only where these hardly meet the question; 0 stands for all.
    """

    ask: str
    kind: Kind
    chunks: Sequence[ScoredChunk]
    weights: Weights | None = None
    query: str = ""
    first: int = 0


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One document's line of a comparison: what it says, and where (None where it says nothing)."""

    document_id: str
    text: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Formed:
    """An answer with its comparison table, if it is one."""

    answer: Answer
    table: tuple[ComparisonRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call; `cached_tokens` are those of `input_tokens` that a prompt cache served.

    `searches` are what a reranker counts that does not charge by the token.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    searches: int = 0

    def __post_init__(self) -> None:
        """Take what is no count, a negative number or a text that a server sent, as 0: not told."""
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value <= 10**9:
                object.__setattr__(self, name, 0)


Messages = Sequence[Mapping[str, str]]
"""The turns of a talk in the form of the OpenAI protocol, each with its `role` and `content`."""
Schema = Mapping[str, Any]
"""A JSON Schema."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a chat model.

    The model reads `system`, then the `examples` as turns of the talk (what was asked, what was
    replied), then `prefix` and `user` as one message. Prompts that share a long
    `prefix`, such as a document, are sent so that the provider's prompt cache serves it. With a
    JSON `schema` the reply's `data` is a value of it; with `choices` it is the one of them that
    the reply names.
    """

    user: str
    system: str = ""
    prefix: str = ""
    schema: Schema | None = None
    choices: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the messages in the form of the OpenAI protocol."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        examples = [
            {"role": role, "content": content}
            for turn in self.examples
            for role, content in zip(("user", "assistant"), turn, strict=True)
        ]
        return [*system, *examples, {"role": "user", "content": self.prefix + self.user}]


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with these properties, all of them and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer; `data` is what it was read as where the prompt has a schema or choices."""

    text: str
    data: Any
    usage: Usage


STATE_FIELDS = [
    pa.field(name, pa.string(), nullable=False)
    for name in ("document_id", "content_hash", "fingerprint")
]
"""Every derived table starts with these: what its rows were made from (see `store`)."""

_DOCUMENT_FIELDS = [
    pa.field("title", pa.string(), nullable=False),
    pa.field("metadata", pa.json_(pa.utf8())),
]
_SPAN_FIELDS = [
    pa.field("chunk_id", pa.string(), nullable=False),
    pa.field("start", pa.int64(), nullable=False),
    pa.field("end", pa.int64(), nullable=False),
    pa.field("text", pa.string(), nullable=False),
]

_ORIGIN_FIELD = pa.field("origin", pa.string())
"""Which version of which object of a bucket a document was read from; null for a file's."""

DOCUMENTS_SCHEMA = pa.schema(
    [
        *STATE_FIELDS,
        *_DOCUMENT_FIELDS,
        pa.field("media_type", pa.string(), nullable=False),
        _ORIGIN_FIELD,
        pa.field("characters", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("page_map", pa.binary()),
    ]
)
QUARANTINE_SCHEMA = pa.schema(
    [
        *STATE_FIELDS,
        pa.field("stage", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        _ORIGIN_FIELD,
    ]
)
CHUNKS_SCHEMA = pa.schema([*STATE_FIELDS, *_SPAN_FIELDS])
CONTEXTUALIZED_CHUNKS_SCHEMA = pa.schema(
    [*STATE_FIELDS, *_SPAN_FIELDS, *_DOCUMENT_FIELDS, pa.field("context", pa.string())]
)


def vector_schema(dimension: int, token_vectors: bool = False) -> pa.Schema:
    """Return the schema of a vector index: contextualized chunks with a unit vector each.

    With token vectors, `token_vectors` holds the sign bits of each token's vector and `token_ids`
    the distinct tokens (uint32), both as bytes.
    """
    fields = [pa.field("vector", pa.list_(pa.float32(), dimension), nullable=False)]
    if token_vectors:
        names = ("token_ids", "token_vectors")
        fields += [pa.field(name, pa.binary(), nullable=False) for name in names]
    return pa.schema([*CONTEXTUALIZED_CHUNKS_SCHEMA, *fields])


def rows_of(columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a schema from lists; JSON columns from their text."""
    arrays = [pa.array(columns[f.name], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def parse_metadata(value: str | None) -> dict[str, Any]:
    """Return the value of a metadata column as a dictionary; {} for what is none."""
    parsed = json.loads(value) if value else {}
    return parsed if isinstance(parsed, dict) else {}


# --- judgements ---


@dataclass(frozen=True, slots=True)
class Answered:
    """One query with the chunks that its answer was made from, best first, and the answer."""

    query: Query
    contexts: Sequence[ScoredChunk]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Entity:
    """A fact stated in a text: its type, and the text of it."""

    kind: str
    text: str


Level = Literal["high", "medium", "low", "none"]


@dataclass(frozen=True, slots=True)
class Judged:
    """What was judged of one context, and the judge's reason if it gives one."""

    level: Level
    used: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ContextJudgement:
    """A query's contexts as judged, in their order, what they lack, and a word on all of them."""

    contexts: tuple[Judged, ...]
    missing: tuple[str, ...] = ()
    overall: str = ""
