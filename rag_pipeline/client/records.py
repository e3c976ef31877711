"""Define the requests and replies of a server's `/v1`. `rag ask --json` prints the same `Answer`.

Offsets are half open and count Unicode code points of a document's text.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_TURNS = 20
Question = Annotated[str, Field(min_length=1, max_length=4000)]
CorpusName = Annotated[str, Field(max_length=200)]
DocumentId = Annotated[str, Field(max_length=1000)]
Filter = Annotated[
    str,
    Field(
        description="A filter in SQL over document_id, title and metadata. Empty: no filter.",
        max_length=2000,
    ),
]
Turns = Annotated[
    list[Question],
    Field(
        description="The earlier questions, oldest first. They complete a question such as 'and in "
        "Lyon?'.",
        max_length=MAX_TURNS,
    ),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Chosen(_Body):
    query: Question
    corpora: list[CorpusName] = Field([], description="Corpora to search. Empty: all.")
    document_id: DocumentId = Field("", description="Search only this document.")
    where: Filter = ""


class SearchBody(_Chosen):
    """A query for passages."""

    k: int = Field(10, ge=1, le=100, description="Number of passages to return.")


class AskBody(_Chosen):
    """A question. If `stream` is true, the reply consists of server-sent events."""

    turns: Turns = []
    instructions: str = Field("", max_length=4000, description="Guidance for a chat model.")
    rewrite: bool | None = Field(None, description="Rewrite the question with the chat model.")
    contexts: int | None = Field(None, ge=1, le=100, description="Number of passages to read.")
    stream: bool = False


class DocumentQuery(BaseModel):
    """The part of a document to return."""

    model_config = ConfigDict(extra="forbid")
    document_id: str = Field(min_length=1, max_length=1000)
    corpus: CorpusName = Field("", description="The document's corpus. Empty: any.")
    start: int = Field(0, ge=0, le=10**9)
    characters: int | None = Field(None, ge=1, le=10**9, description="Empty: all.")


class PageQuery(BaseModel):
    """The page of a PDF to return, by default the first page of the span."""

    model_config = ConfigDict(extra="forbid")
    document_id: str = Field(min_length=1, max_length=1000)
    corpus: CorpusName = ""
    page: int | None = Field(None, ge=1, le=10**6)
    start: int = Field(0, ge=0, le=10**9)
    end: int = Field(0, ge=0, le=10**9)


class Nothing(BaseModel):
    """The parameters of a request that has none."""

    model_config = ConfigDict(extra="forbid")


class Record(BaseModel):
    """A reply, made from an object with the same attributes."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Released(Record):
    """The searched release, created at the time `released`. `note` tells of a rollback to it."""

    corpus: str
    release: str
    released: str
    configuration: str
    note: str = ""


def _place(place: Any) -> Any:
    return place.record() if hasattr(place, "record") else place


Place = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_place),
    Field(
        description="The span's place in the original file: `label` and, by format, page, section, "
        "sheet, row, slide, pointer or line."
    ),
]


Copies = Annotated[
    tuple[str, ...], Field(description="Ids of documents with the same text, indexed once.")
]


class Excerpt(Record):
    """The part of a passage that best fits the question, on one line, with its own place."""

    text: str
    start: int
    end: int
    place: Place = None


class Passage(Record):
    """A chunk of a document, or larger text around a chunk."""

    corpus: str
    chunk_id: str
    document_id: str
    start: int
    end: int
    text: str
    score: float
    context: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = {}
    place: Place = None
    copies: Copies = ()
    excerpt: Annotated[
        Excerpt | None, Field(description="Only of the nearest passages without an answer.")
    ] = None


class Passages(Record):
    """The found passages, best first."""

    releases: tuple[Released, ...]
    passages: tuple[Passage, ...]


class Source(Record):
    """A cited span.

    `verified` is true if the document has this text at these offsets. `supports` is false if the
    text does not support a sentence that cites it. `content_hash` is the hash of the document, or
    "" if it is unknown.
    """

    number: int
    corpus: str
    document_id: str
    content_hash: str
    chunk_id: str
    start: int
    end: int
    text: str
    verified: bool
    supports: bool
    origin: Mapping[str, Any] | None = None
    place: Place = None
    copies: Copies = ()


class AnswerDocument(Record):
    """A document that the question is about."""

    corpus: str
    document_id: str
    title: str
    score: float


class AnswerIntent(Record):
    """The form of the answer to a question, and the question's field of knowledge and names."""

    kind: str
    domain: str
    entities: tuple[str, ...]


class AnswerRow(Record):
    """A row of a comparison. `number` is the number of its first source, or null without one."""

    document_id: str
    text: str
    number: int | None


class Step(Record):
    """A step of the assistant. `began` is in nanoseconds since 1970."""

    name: str
    seconds: float
    detail: Mapping[str, Any]
    began: int


class Answer(Record):
    """An answer with its sources, and with the documents, passages and steps that led to it.

    `answered` is false if no document answers. `confidence` is the estimated probability, 0 to 1,
    that the answer is right, or null. `problems` lists wrong citations. `doubted` lists the
    sentences that no source supports. `confidence_said` is a sentence about the confidence, and
    `nearest_said` a title for the passages of a refusal, in the language of the question.
    """

    query: str
    text: str
    answered: bool
    confidence: float | None
    sources: tuple[Source, ...]
    releases: tuple[Released, ...]
    problems: tuple[str, ...]
    doubted: tuple[str, ...]
    warnings: tuple[str, ...]
    intent: AnswerIntent
    documents: tuple[AnswerDocument, ...]
    passages: tuple[Passage, ...]
    table: tuple[AnswerRow, ...]
    trace: tuple[Step, ...]
    confidence_said: str = ""
    nearest_said: str = ""


class Stage(Record):
    """The start of a step, as an event of a streamed answer."""

    name: str
    done: int
    total: int


class DocumentPart(Record):
    """A document's text from `start`. `next_start` is null at the end of the document."""

    corpus: str
    document_id: str
    content_hash: str
    title: str
    characters: int
    start: int
    text: str
    next_start: int | None


class PageImage(Record):
    """A page as a data URL. A box is left, top, width, height in shares (0 to 1) of the page."""

    corpus: str
    document_id: str
    page: int
    pages: int
    image: str
    boxes: tuple[tuple[float, float, float, float], ...]


class CorpusFacts(Record):
    """A corpus with the numbers of documents and chunks that the caller may see, or with its error.

    `questions` are examples: measured queries that the release answers.
    """

    name: str
    description: str = ""
    release: str = ""
    released: str = ""
    configuration: str = ""
    documents: int = 0
    chunks: int = 0
    questions: tuple[str, ...] = ()
    error: str = ""


class Corpora(Record):
    """The corpora that the caller may name."""

    corpora: tuple[CorpusFacts, ...]


class Failure(BaseModel):
    """The reason for a refused or failed request."""

    error: str
    request_id: str = ""


class NamedPassage(_Body):
    """A span of a document."""

    document_id: str = Field(min_length=1, max_length=1000)
    start: int = Field(ge=0, le=10**9)
    end: int = Field(ge=1, le=10**9)


class FeedbackBody(_Body):
    """A judgement of an answer, with its `release`, its `sources` and the right `passage`."""

    query: Question
    corpus: str = Field(min_length=1, max_length=200)
    verdict: Literal["helpful", "wrong"]
    release: str = Field("", max_length=100)
    sources: list[NamedPassage] = Field([], max_length=20)
    passage: NamedPassage | None = None
    comment: str = Field("", max_length=2000)


class Feedback(Record):
    """The id under which the server keeps the feedback."""

    id: str
