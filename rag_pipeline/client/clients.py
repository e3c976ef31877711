"""Call a server's HTTP interface `/v1`, and return typed records.

`Client` waits for replies. `AsyncClient` has the same methods as coroutines.
"""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from rag_pipeline.client.records import (
    Answer,
    AskBody,
    Corpora,
    CorpusFacts,
    DocumentPart,
    DocumentQuery,
    Feedback,
    FeedbackBody,
    Nothing,
    Passages,
    SearchBody,
    Stage,
)
from rag_pipeline.errors import InputError, ProviderError, first_problem

Reply = TypeVar("Reply", bound=BaseModel)
_SECONDS = 130.0
"""Timeout in seconds. By default, a server ends a streamed answer after 120 seconds."""
_EVENTS: dict[str, type[BaseModel]] = {"stage": Stage, "answer": Answer}


class _Chosen(TypedDict, total=False):
    corpora: list[str]
    document_id: str
    where: str


class SearchOptions(_Chosen, total=False):
    """The optional fields of `SearchBody`: all except the query."""

    k: int


class AskOptions(_Chosen, total=False):
    """The optional fields of `AskBody`: all except the query and `stream`."""

    turns: list[str]
    instructions: str
    rewrite: bool
    contexts: int


class DocumentOptions(TypedDict, total=False):
    """The optional fields of `DocumentQuery`: all except the document's id."""

    corpus: str
    start: int
    characters: int


@dataclass(frozen=True, slots=True)
class _Call(Generic[Reply]):
    """A request to the server, and the type of its reply."""

    path: str
    reply: type[Reply]
    sent: BaseModel
    method: str = "POST"

    def request(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        sent = self.sent.model_dump(exclude_unset=True)
        if self.method == "GET":
            sent.pop("document_id", None)  # the path contains it
            return client.build_request("GET", self.path, params=sent)
        return client.build_request("POST", self.path, json=sent)

    def read(self, response: httpx.Response) -> Reply:
        if response.status_code != 200:
            raise _failure(response.status_code, response.text)
        try:
            return self.reply.model_validate_json(response.content)
        except ValidationError as error:
            raise ProviderError(f"{self.path}: invalid reply of the server: {error}") from None


def _checked(kind: type[Reply], **fields: Any) -> Reply:
    try:
        return kind(**fields)
    except ValidationError as error:
        raise InputError(first_problem(error)) from None


def _search(query: str, options: SearchOptions) -> _Call[Passages]:
    return _Call("/v1/search", Passages, _checked(SearchBody, query=query, **options))


def _ask(query: str, options: AskOptions, **more: bool) -> _Call[Answer]:
    return _Call("/v1/ask", Answer, _checked(AskBody, query=query, **options, **more))


def _document(document_id: str, options: DocumentOptions) -> _Call[DocumentPart]:
    wanted = _checked(DocumentQuery, document_id=document_id, **options)
    return _Call(f"/v1/documents/{quote(document_id, safe='')}", DocumentPart, wanted, "GET")


def _event(fields: dict[str, str]) -> Stage | Answer:
    """Return the record of a server-sent event. Raise ProviderError for the event `error`."""
    kind = _EVENTS.get(fields.get("event", ""))
    if kind is None:
        raise _failure(500, fields.get("data", ""))
    made = kind.model_validate_json(fields["data"])
    assert isinstance(made, Stage | Answer)
    return made


def _failure(status: int, text: str) -> InputError | ProviderError:
    """Return the error of a reply: InputError for a wrong request, or else ProviderError."""
    try:
        message = json.loads(text)["error"]
    except (ValueError, LookupError, TypeError):
        message = text[:200]
    if status in (400, 404, 422):
        return InputError(str(message))
    failed = ProviderError(f"the server answered {status}: {message}")
    failed.status = status
    return failed


class _Events:
    """The events in the lines of a stream."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def add(self, line: str) -> Stage | Answer | None:
        """Add a line. Return the record if its event is complete, or else None."""
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            self._fields[name] = value
        elif not line and self._fields:
            fields, self._fields = self._fields, {}
            return _event(fields)
        return None


def _options(url: str, token: str | None, seconds: float) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {"base_url": url, "headers": headers, "timeout": seconds}


class Client:
    """A client that waits for replies. Close the client, or use it as a context manager.

    >>> with Client("http://127.0.0.1:9003", token="…") as client:
    ...     client.ask("How long does confidentiality last?").text

    Each method raises InputError if the server refuses the request, and ProviderError if the server
    fails or cannot be reached.
    """

    def __init__(self, url: str, token: str | None = None, seconds: float = _SECONDS) -> None:
        """Take the server's address and token. A call fails after `seconds` without a reply."""
        self._http = httpx.Client(**_options(url, token, seconds))

    def search(self, query: str, **options: Unpack[SearchOptions]) -> Passages:
        """Return the passages that answer a query, best first."""
        return self._send(_search(query, options))

    def ask(self, query: str, **options: Unpack[AskOptions]) -> Answer:
        """Return the answer to a question, with checked sources."""
        return self._send(_ask(query, options))

    def stream(self, query: str, **options: Unpack[AskOptions]) -> Iterator[Stage | Answer]:
        """Yield each stage when it begins, and then the answer."""
        events, call = _Events(), _ask(query, options, stream=True)
        try:
            response = self._http.send(call.request(self._http), stream=True)
            try:
                if response.status_code != 200:
                    raise _failure(response.status_code, response.read().decode())
                yield from (made for line in response.iter_lines() if (made := events.add(line)))
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise _unreached(error) from None

    def document(self, document_id: str, **options: Unpack[DocumentOptions]) -> DocumentPart:
        """Return a document's text as it was indexed."""
        return self._send(_document(document_id, options))

    def corpora(self) -> tuple[CorpusFacts, ...]:
        """Return the corpora that the token may name."""
        return self._send(_Call("/v1/corpora", Corpora, Nothing(), "GET")).corpora

    def feedback(self, feedback: FeedbackBody) -> Feedback:
        """Send a judgement of an answer, or the right passage. Return its id."""
        return self._send(_Call("/v1/feedback", Feedback, feedback))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _send(self, call: _Call[Reply]) -> Reply:
        try:
            return call.read(self._http.send(call.request(self._http)))
        except httpx.HTTPError as error:
            raise _unreached(error) from None


class AsyncClient:
    """A client with the methods of `Client` as coroutines."""

    def __init__(self, url: str, token: str | None = None, seconds: float = _SECONDS) -> None:
        self._http = httpx.AsyncClient(**_options(url, token, seconds))

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> Passages:
        """Return the passages that answer a query, best first."""
        return await self._send(_search(query, options))

    async def ask(self, query: str, **options: Unpack[AskOptions]) -> Answer:
        """Return the answer to a question, with checked sources."""
        return await self._send(_ask(query, options))

    async def stream(
        self, query: str, **options: Unpack[AskOptions]
    ) -> AsyncIterator[Stage | Answer]:
        """Yield each stage when it begins, and then the answer."""
        events, call = _Events(), _ask(query, options, stream=True)
        try:
            response = await self._http.send(call.request(self._http), stream=True)
            try:
                if response.status_code != 200:
                    raise _failure(response.status_code, (await response.aread()).decode())
                async for line in response.aiter_lines():
                    if made := events.add(line):
                        yield made
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise _unreached(error) from None

    async def document(self, document_id: str, **options: Unpack[DocumentOptions]) -> DocumentPart:
        """Return a document's text as it was indexed."""
        return await self._send(_document(document_id, options))

    async def corpora(self) -> tuple[CorpusFacts, ...]:
        """Return the corpora that the token may name."""
        return (await self._send(_Call("/v1/corpora", Corpora, Nothing(), "GET"))).corpora

    async def feedback(self, feedback: FeedbackBody) -> Feedback:
        """Send a judgement of an answer, or the right passage. Return its id."""
        return await self._send(_Call("/v1/feedback", Feedback, feedback))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _send(self, call: _Call[Reply]) -> Reply:
        try:
            return call.read(await self._http.send(call.request(self._http)))
        except httpx.HTTPError as error:
            raise _unreached(error) from None


def _unreached(error: httpx.HTTPError) -> ProviderError:
    return ProviderError(f"the server cannot be reached: {type(error).__name__}: {error}")
