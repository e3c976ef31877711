"""Define the common parts of clients for remote models: key, limits and errors."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from rag_pipeline.calls import PROBE, Endpoint, Received, failure_of_status, open_endpoint
from rag_pipeline.calls.costs import CallKind, ChargedTokens, paying, record
from rag_pipeline.calls.grouping import groups
from rag_pipeline.config import RemoteModel
from rag_pipeline.config.models import EmbeddingSettings, EmbedRequest, InputType
from rag_pipeline.datamodels import Usage, Vectors
from rag_pipeline.errors import (
    CallsStoppedError,
    ProviderError,
    RefusedError,
    TransientError,
    keep_secret,
)
from rag_pipeline.models.providers.limits import TokenCounter, embedding_limits

_NO_SUCH_MODEL = re.compile(
    r"(?is)\bmodel\b.*\b(not found|not supported|does not exist|not exist|not available|unknown)"
    r"|\b(unknown|invalid|unsupported|no such) model\b"
)
_READ_AT_LEAST = 0.9
"""A server that counts a lower share of the tokens than this must have cut texts."""
VectorsReply = tuple[Sequence[object], Usage, Mapping[str, str]]
"""A reply's vectors in order, its usage and its headers."""


class RemoteEmbedding(RemoteModel, EmbeddingSettings):
    """An embedding model behind an API.

    Requests stay within the known limits of the model (`providers/limits.py`). For an unknown
    model, set `max_texts`, `max_request_tokens` and `max_text_tokens`. `tokenizer` is the path of a
    tokenizer.json that counts tokens. Without a tokenizer, tokens are estimated. A text over the
    limit is cut if `truncate` is set. Otherwise, an error names the text.
    """

    not_fingerprinted: ClassVar[frozenset[str]] = RemoteModel.not_fingerprinted | {
        "max_texts",
        "max_request_tokens",
    }
    model: str
    dimensions: int | None = Field(default=None, ge=1)
    truncate: bool = False
    tokenizer: str | None = None
    max_texts: int | None = Field(default=None, ge=1)
    max_request_tokens: int | None = Field(default=None, ge=1)
    max_text_tokens: int | None = Field(default=None, ge=1)


class Server:
    """One model at one address, with its key."""

    def __init__(
        self,
        provider: str,
        settings: RemoteModel,
        model: str,
        home: str,
        given_key: str | None = None,
    ) -> None:
        """Set the vendor's own address (`home`), and a key from Python (`given_key`) if any."""
        self.provider = provider
        self.address = settings.base_url or home
        self.identity_url = settings.identity_url or home
        self.what = f"{model} at {self.address.split('://')[-1].rstrip('/')}"
        self.endpoint: Endpoint = open_endpoint(self.what, settings)
        self._settings = settings
        self._model = model
        self._given_key = given_key

    @property
    def key(self) -> str:
        """Return the key, or "none" for another server than the vendor's.

        Raise CallsStoppedError if the key for the vendor's server is missing.
        """
        variable = self._settings.api_key_env
        key = self._given_key or os.environ.get(variable)
        keep_secret(key)
        if not key and self._settings.base_url is None:
            raise CallsStoppedError(
                f"{self._model}: the environment variable {variable} is not set; set your key"
            )
        return key or "none"

    def identity(self, *parameters: object) -> str:
        """Return provider, address, model and parameters, which together decide the answers."""
        return ":".join(map(str, (self.provider, self.identity_url, self._model, *parameters)))

    def paying(
        self,
        kind: CallKind,
        expected: ChargedTokens,
        texts: Sequence[str] = (),
        most: ChargedTokens | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Reserve the cost of one request (see `costs.paying`)."""
        address = self._settings.base_url
        return paying(kind, self.provider, self._model, expected, most, address, texts)

    def charge(
        self, kind: CallKind, usage: Usage, call_id: str | None = None, written: bool = False
    ) -> None:
        """Charge a reply (see `record`). A reply in a batch is charged once for its `call_id`."""
        other: dict[str, Any] = {"call_id": call_id, "written": written, **asdict(usage)}
        address, is_batched = self._settings.base_url, call_id is not None
        record(kind, self.provider, self._model, base_url=address, batch=is_batched, **other)

    def refusal(
        self, status: int, message: str, headers: Mapping[str, str], stops: str = ""
    ) -> ProviderError:
        """Return the error for an HTTP status. For `stops`, see `failure_of_status`."""
        what = f"{self.what} ({self._settings.api_key_env})"
        lowered = {name.lower(): value for name, value in headers.items()}
        stops = stops or ("model" if _NO_SUCH_MODEL.search(message) else "")
        return failure_of_status(what, status, message, lowered, self.key, stops=stops)


class RequestBuilder(ABC):
    """A base of remote embedders that groups inputs into requests. A subclass adds the protocol."""

    def __init__(self, settings: RemoteEmbedding, home: str) -> None:
        self.limits = embedding_limits(
            settings.model,
            texts=settings.max_texts,
            request_tokens=settings.max_request_tokens,
            text_tokens=settings.max_text_tokens,
        )
        self.model = settings.model
        self.dimension = self.limits.dimension(settings.model, settings.dimensions)
        self.max_concurrency = settings.max_concurrency
        self._counter = TokenCounter(settings.tokenizer)
        self._truncate = settings.truncate
        self._timeout = settings.timeout_seconds
        self._server = Server(settings.provider, settings, settings.model, home)

    @abstractmethod
    def connected(self) -> AbstractAsyncContextManager[Any]:
        """Open the connections of the running event loop."""

    @abstractmethod
    async def ask(
        self, client: Any, inputs: list[list[str]], input_type: InputType
    ) -> VectorsReply:
        """Return the vectors, usage and headers of a reply. Raise ProviderError if it fails."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[EmbedRequest]:
        """Open the connections of the running event loop. Yield a function for one request."""
        server = self._server
        async with self.connected() as client:

            async def embed(
                inputs: Sequence[Sequence[str]], input_type: InputType
            ) -> tuple[Vectors, Usage]:
                fitting = [self._fit(texts) for texts in inputs]
                tokens = sum(self._sizes(inputs))

                async def attempt(sent: list[list[str]]) -> Received[tuple[Vectors, Usage]]:
                    texts = [text for own in sent for text in own]
                    async with server.paying("embedding", ChargedTokens(tokens), texts):
                        rows, used, headers = await self.ask(client, sent, input_type)
                        vectors = read_vectors(rows, len(texts), self.dimension, server.what)
                        self._refuse_cut(used, texts)
                        return Received((vectors, used), headers, used.input_tokens or None)

                probe = partial(attempt, [[PROBE]])
                return await server.endpoint.send(partial(attempt, fitting), tokens, probe)

            yield embed

    def parts(self, chunks: Sequence[str]) -> list[tuple[str, ...]]:
        """Return a document's chunks as inputs. A contextual model embeds groups of chunks."""
        if not self.limits.contextual:
            return [(chunk,) for chunk in chunks]
        sizes = self._sizes([(chunk,) for chunk in chunks])
        together = groups(sizes, len(chunks), self.limits.text_tokens)
        return [tuple(chunks[i] for i in group) for group in together]

    def batches(self, inputs: Sequence[Sequence[str]]) -> Iterator[list[int]]:
        """Yield groups of inputs' positions. Each group is within the limits of one request."""
        return groups(self._sizes(inputs), self.limits.texts, self.limits.request_tokens)

    def _fit(self, texts: Sequence[str]) -> list[str]:
        return self._counter.fit(texts, self.model, self.limits.text_tokens, self._truncate)

    def _refuse_cut(self, used: Usage, texts: Sequence[str]) -> None:
        """Raise ProviderError if a server counts so few tokens that it must have cut texts."""
        if self._truncate or not self._counter.exact or not used.input_tokens:
            return
        sent = sum(self._counter.count(texts))
        if used.input_tokens < _READ_AT_LEAST * sent:
            raise ProviderError(
                f"{self.model}: the server read {used.input_tokens:,} of {sent:,} tokens, so it "
                f"cuts texts; set `max_text_tokens` to the server's limit, or `truncate: true`"
            )

    def _sizes(self, inputs: Sequence[Sequence[str]]) -> list[int]:
        """Return the number of tokens of each input, whose texts are cut to the limit."""
        flat = self._fit([text for texts in inputs for text in texts])
        counts = iter(self._counter.count(flat))
        return [sum(next(counts) for _ in texts) for texts in inputs]


def read_vectors(rows: Sequence[object], count: int, dimension: int, what: str) -> Vectors:
    """Return the vectors of a reply at unit length, shape (count, dimension).

    A vector becomes NaN if it is zero, is not finite or has another dimension. Raises
    TransientError for a wrong count. Raise RefusedError if no vector has the expected dimension.
    """
    if len(rows) != count:
        raise TransientError(f"{what}: {count} texts were sent and {len(rows)} vectors came back")
    try:
        own = [np.asarray(row, np.float32) for row in rows]
    except (ValueError, TypeError):
        raise TransientError(f"{what}: the vectors are not rows of numbers") from None
    if all(row.shape != (dimension,) for row in own):
        got = own[0].shape[0] if own[0].ndim == 1 else "no"
        said = f"returned vectors of {got} dimensions, the settings expect {dimension}"
        raise RefusedError(f"{what}: {said}", "set `dimensions` to the model's own", inputs=count)
    unknown = np.full(dimension, np.nan, np.float32)
    vectors = np.array([row if row.shape == (dimension,) else unknown for row in own])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit: Vectors = vectors / lengths
    unit[~np.isfinite(unit).all(axis=1)] = np.nan
    return unit


def in_order(
    rows: Sequence[Any], count: int, what: str, index: Callable[[Any], Any] = itemgetter("index")
) -> list[Any]:
    """Return a reply's rows sorted by `index`. Raise TransientError unless each text has one row.

    `what` names the model in the error.
    """
    if len(rows) != count:
        raise TransientError(f"{what}: {count} texts were sent and {len(rows)} vectors came back")
    ordered = sorted(rows, key=lambda row: int(index(row)))
    if [index(row) for row in ordered] != list(range(count)):
        raise TransientError(f"{what}: the vectors are not numbered from 0 to {count - 1}")
    return ordered


def read_ranking(found: Sequence[tuple[int, float]], count: int, what: str) -> list[float]:
    """Return a reply's scores in the order of the passages.

    Raise TransientError if a score is missing, and ProviderError if a score is not finite.
    """
    scores = dict(found)
    if len(found) != count or set(scores) != set(range(count)):
        raise TransientError(f"{what}: {count} passages were sent and {len(found)} scored")
    if not np.isfinite(list(scores.values())).all():
        raise ProviderError(f"{what}: a score is not finite")
    return [scores[position] for position in range(count)]
