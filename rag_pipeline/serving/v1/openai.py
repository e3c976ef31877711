"""Serve corpora by OpenAI's interface: search in vector stores, models and chat completions.

A corpus's name is the id of its vector store and of its model. Source: OpenAI's API reference.
"""

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.corpora import with_releases
from rag_pipeline.assistant.results import Released
from rag_pipeline.client.records import MAX_TURNS, Answer, AskBody, CorpusFacts, Nothing, Record
from rag_pipeline.errors import InputError
from rag_pipeline.search.excerpt import readable
from rag_pipeline.serving.question_log import QuestionLog
from rag_pipeline.serving.tools import health_of
from rag_pipeline.serving.v1.endpoints import Endpoint, NotFoundError
from rag_pipeline.serving.v1.filters import Comparison, Compound, where_of
from rag_pipeline.serving.v1.routes import answered
from rag_pipeline.serving.v1.streaming import event_stream

_MOST_QUERIES = 5
_MARK = re.compile(r"\[(\d+)\]")
_PIECE = re.compile(r"\S*\s*")
_DONE = "[DONE]"
Query = Annotated[str, Field(min_length=1, max_length=4000)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """Remove nulls, because clients send null for each parameter that is not set."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class RankingOptions(_Asked):
    """Options of the ranking. The result has no score (0 to 1) below `score_threshold`."""

    ranker: Literal["auto", "default-2024-11-15"] = "auto"
    score_threshold: float = Field(0.0, ge=0.0, le=1.0)


class VectorStoreQuery(_Asked):
    """A search in a corpus."""

    model_config = ConfigDict(extra="forbid")
    query: Query | Annotated[list[Query], Field(min_length=1, max_length=_MOST_QUERIES)]
    filters: Comparison | Compound | None = None
    max_num_results: int = Field(10, ge=1, le=50)
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: bool = Field(False, description="Needs a chat model (`assistant.chat`).")

    @property
    def queries(self) -> list[str]:
        """Return the queries as a list, even if there is only one."""
        return [self.query] if isinstance(self.query, str) else self.query


class TextContent(Record):
    """The text of a result."""

    type: Literal["text"] = "text"
    text: str


class VectorStoreResult(Record):
    """A passage of a document. `score` is the probability (0 to 1) that the passage answers."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | float | bool]
    content: tuple[TextContent, ...]


class VectorStorePage(Record):
    """The results of a search, best first."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: tuple[str, ...]
    data: tuple[VectorStoreResult, ...]
    releases: tuple[Released, ...] = ()
    has_more: bool = False
    next_page: None = None


class ModelFacts(Record):
    """A corpus as a model. `created` is the time of its release in seconds since 1970, or 0."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "rag_pipeline"


class ModelList(Record):
    """The corpora that the caller may name."""

    object: Literal["list"] = "list"
    data: tuple[ModelFacts, ...]


class TextPart(_Asked):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(_Asked):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None

    @property
    def text(self) -> str:
        """Return the text of all parts."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class ChatBody(_Asked):
    """A conversation. Its last message is the question. Other fields of OpenAI are ignored."""

    model: str = Field(min_length=1, max_length=200)
    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream: bool = False
    n: Literal[1] | None = None


class UrlCitation(Record):
    """A citation with the address of the source's document.

    `start_index` and `end_index` are the offsets of the source's number in the message.
    """

    start_index: int
    end_index: int
    title: str
    url: str


class Annotation(Record):
    """A citation of a source in a message."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class ChatMessage(Record):
    """The answer with its citations."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    annotations: tuple[Annotation, ...]


class Choice(Record):
    """The only choice of a completion."""

    index: Literal[0] = 0
    message: ChatMessage
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class ChatCompletion(Record):
    """An answer as a chat completion. `rag_pipeline` is the answer as `/v1/ask` returns it."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: tuple[Choice, ...]
    rag_pipeline: Answer


def openai_failure(message: str, status: int) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def openai_endpoints(log: QuestionLog, seconds: float) -> list[Endpoint]:
    """Return the endpoints. They add each question to `log`. A stream lasts at most `seconds`."""

    def search(seen: Assistant, wanted: VectorStoreQuery, request: Request) -> VectorStorePage:
        name = _known(seen, request.path_params["vector_store_id"])
        for query in wanted.queries:
            log.keep(query, [name])
        chosen = [seen.corpora[name]]
        page, releases = with_releases(chosen, lambda: vector_store_page(seen, wanted, name))
        return page.model_copy(update={"releases": releases})

    def complete(seen: Assistant, wanted: ChatBody, request: Request) -> ChatCompletion:
        made = answered(seen, _question(seen, wanted), log)
        return _completion(made, wanted.model, request)

    async def streamed(
        see: Callable[[], Assistant], wanted: ChatBody, request: Request
    ) -> Response:
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time())}
        head |= {"object": "chat.completion.chunk", "model": wanted.model}

        def work(progress: Callable[[str, int, int], None]) -> ChatCompletion:
            seen = see()
            made = answered(seen, _question(seen, wanted), log, progress)
            return _completion(made, wanted.model, request)

        return await event_stream(
            work,
            lambda name, done, total: [] if done else [_chunk(head, {"role": "assistant"})],
            lambda made: _chunks(head, made),
            lambda message: [_data(openai_failure(message, 500))],
            seconds,
        )

    described = [
        Endpoint(
            path="/v1/vector_stores/{vector_store_id}/search",
            summary="Search a corpus in OpenAI's form",
            takes=VectorStoreQuery,
            returns=VectorStorePage,
            work=search,
        ),
        Endpoint(
            path="/v1/chat/completions",
            summary="Answer a question in OpenAI's form",
            takes=ChatBody,
            returns=ChatCompletion,
            work=complete,
            streams=streamed,
        ),
        Endpoint(
            path="/v1/models",
            summary="List the corpora in OpenAI's form",
            method="GET",
            takes=Nothing,
            returns=ModelList,
            work=lambda seen, wanted, request: _models(seen),
        ),
    ]
    return [replace(one, form=openai_failure) for one in described]


def _known(seen: Assistant, name: str) -> str:
    if name not in seen.corpora:
        raise NotFoundError(f"no corpus {name[:80]!r}; there are: {', '.join(seen.corpora)}")
    return name


def vector_store_page(seen: Assistant, wanted: VectorStoreQuery, name: str) -> VectorStorePage:
    """Return the passages of a corpus that answer one or several queries best, best first.

    Raise InputError for a bad filter, or for `rewrite_query` without a chat model.
    """
    queries = wanted.queries
    if wanted.rewrite_query:
        model = seen.model
        if model is None:
            raise InputError("rewrite_query needs a chat model; set assistant.chat, or send false")
        queries = [model.rewrite(query) for query in queries]
    where, most = where_of(wanted.filters), wanted.max_num_results
    best: dict[str, tuple[Any, float]] = {}
    for query in queries:
        for passage, score in seen.rated(query, name, most, where):
            if passage.chunk_id not in best or best[passage.chunk_id][1] < score:
                best[passage.chunk_id] = passage, score
    ranked = best.values() if len(queries) == 1 else sorted(best.values(), key=lambda p: -p[1])
    kept = [pair for pair in ranked if pair[1] >= wanted.ranking_options.score_threshold][:most]
    data = tuple(
        VectorStoreResult(
            file_id=passage.document_id,
            filename=passage.document_id,
            score=score,
            attributes={
                **{k: v for k, v in passage.metadata.items() if isinstance(v, str | int | float)},
                "title": passage.title,
                "start": passage.start,
                "end": passage.end,
            },
            content=(TextContent(text=passage.text),),
        )
        for passage, score in kept
    )
    return VectorStorePage(search_query=tuple(queries), data=data)


def _models(seen: Assistant) -> ModelList:
    facts = [CorpusFacts.model_validate(one) for one in health_of(seen).datasets]
    return ModelList(data=tuple(ModelFacts(id=one.name, created=_seconds(one)) for one in facts))


def _seconds(facts: CorpusFacts) -> int:
    return int(datetime.fromisoformat(facts.released).timestamp()) if facts.released else 0


def _question(seen: Assistant, wanted: ChatBody) -> AskBody:
    """Return the last message as a question, with earlier messages as turns and instructions."""
    _known(seen, wanted.model)
    *before, last = wanted.messages
    if last.role != "user":
        raise InputError(f"messages: the last role is {last.role!r}; it must be 'user'")
    turns = [m.text for m in before if m.role == "user" and 0 < len(m.text) <= 4000]
    guidance = "\n\n".join(m.text for m in before if m.role in ("system", "developer"))
    return AskBody(
        query=last.text,
        corpora=[wanted.model],
        turns=turns[-MAX_TURNS:],
        instructions=guidance[:4000],
    )


def _completion(made: Answer, name: str, request: Request) -> ChatCompletion:
    sources = {source.number: source for source in made.sources}
    content = readable(made.text)
    annotations = [
        Annotation(
            url_citation=UrlCitation(
                start_index=mark.start(),
                end_index=mark.end(),
                title=source.document_id,
                url=_address(request, source),
            )
        )
        for mark in _MARK.finditer(content)
        if (source := sources.get(int(mark[1]))) is not None
    ]
    message = ChatMessage(content=content, annotations=tuple(annotations))
    return ChatCompletion(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        created=int(time.time()),
        model=name,
        system_fingerprint=",".join(one.release for one in made.releases),
        choices=(Choice(message=message),),
        rag_pipeline=made,
    )


def _address(request: Request, source: Any) -> str:
    span = {"corpus": source.corpus, "start": source.start}
    span["characters"] = max(1, source.end - source.start)
    path = f"v1/documents/{quote(source.document_id, safe='')}"
    return f"{request.base_url}{path}?{urlencode(span)}"


def _chunks(head: dict[str, Any], made: ChatCompletion) -> Iterator[ServerSentEvent]:
    message = made.choices[0].message
    for piece in _PIECE.findall(message.content):
        if piece:
            yield _chunk(head, {"content": piece})
    annotations = [one.model_dump() for one in message.annotations]
    answer = {"rag_pipeline": made.rag_pipeline.model_dump(mode="json")}
    named = {**head, "system_fingerprint": made.system_fingerprint}
    yield _chunk({**named, **answer}, {"annotations": annotations}, "stop")
    yield ServerSentEvent(_DONE)


def _chunk(
    head: dict[str, Any], delta: dict[str, Any], reason: str | None = None
) -> ServerSentEvent:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
    return _data({**head, "choices": [choice]})


def _data(record: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(record))
