"""Call chat and embedding models of OpenAI, and of other servers with its protocol."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError

from rag_pipeline.calls import PROBE, Received, redacted
from rag_pipeline.calls.costs import request_texts, request_tokens
from rag_pipeline.calls.telemetry import reply_told
from rag_pipeline.config import RemoteModel
from rag_pipeline.config.models import ChatSettings, Completion, InputType
from rag_pipeline.datamodels import Messages, Schema, Usage
from rag_pipeline.errors import ProviderError, TransientError, without_secrets
from rag_pipeline.models.providers.http import MOST_VECTOR_BYTES
from rag_pipeline.models.providers.openai_sdk import client_of, sdk_errors
from rag_pipeline.models.providers.remote import (
    RemoteEmbedding,
    RequestBuilder,
    Server,
    VectorsReply,
    in_order,
)

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

    from rag_pipeline.models.providers.openai_batch import OpenAIBatches

_HOME = "https://api.openai.com/v1"
_CHARACTERS_PER_TOKEN = 4
_CUT = ("length", "content_filter")
"""Finish reasons of incomplete replies."""


# --- chat models ---


class OpenAIProtocol(RemoteModel, ChatSettings):
    """A chat model with the OpenAI protocol. A subclass adds `provider` and its defaults.

    The environment variable `api_key_env` has the key. Your own server may need no key. `seed` and
    `temperature` are sent if they are set. If `batch` is set, calls use the provider's Batch API,
    which costs less and answers within a day.
    """

    not_fingerprinted = RemoteModel.not_fingerprinted | ChatSettings.not_fingerprinted

    api_key_env: str = "OPENAI_API_KEY"
    temperature: float | None = Field(default=0.0, ge=0.0, le=2.0)
    seed: int | None = None

    @property
    def identity(self) -> str:
        """Return provider, address, model and parameters, which together decide the answers."""
        server = self.identity_url or "api.openai.com"
        own = (self.model, self.temperature, self.seed, self.max_output_tokens)
        return ":".join(str(part) for part in (self.provider, server, *own))

    def within(self, seconds: float, patience: float) -> Self:
        """Return the settings with at most this timeout and this patience in seconds."""
        timeout = min(self.timeout_seconds, seconds)
        patience = min(self.patience_seconds, patience)
        return self.model_copy(update={"timeout_seconds": timeout, "patience_seconds": patience})

    def server(self) -> Server:
        """Return the server that answers the calls."""
        return Server(self.provider, self, self.model, _HOME)

    def open(self) -> "OpenAIChat":
        """Return a client. Raise ProviderError if the key is not set."""
        return OpenAIChat(self)


class ChatModel(OpenAIProtocol):
    """A chat model with the OpenAI protocol: OpenAI, Azure, vLLM, Ollama, llama.cpp."""

    provider: Literal["openai"]


class GivenKeyChat(OpenAIProtocol):
    """A chat model with a key from Python. No setting, file or message shows the key."""

    provider: Literal["openai"]
    _key: str = PrivateAttr()

    @classmethod
    def of(cls, key: str, *, base_url: str, model: str) -> Self:
        """Return the settings. Raise ValueError if a value is invalid."""
        # Error messages name `api_key_env` as the source of the key.
        try:
            made = cls(provider="openai", base_url=base_url, model=model, api_key_env="api_key")
        except ValidationError as error:
            first = error.errors()[0]
            said = first["msg"].removeprefix("Value error, ")
            raise ValueError(f"{first['loc'][0]}: {said}") from None
        made._key = key
        return made

    def server(self) -> Server:
        """Return the server with the key."""
        return Server(self.provider, self, self.model, _HOME, self._key)


class OpenAIChat:
    """The client of one chat model of one server."""

    def __init__(self, settings: OpenAIProtocol) -> None:
        self.identity = settings.identity
        self.max_concurrency = settings.max_concurrency
        self._settings = settings
        self._server = settings.server()
        self._client = client_of(self._server, settings.timeout_seconds)

    async def complete(self, messages: Messages, schema: Schema | None) -> Completion:
        """Return the reply to messages. Raise ProviderError with the server's reason."""
        settings = self._settings
        size = sum(len(message["content"]) for message in messages)
        tokens = size / _CHARACTERS_PER_TOKEN + settings.max_output_tokens
        expected, most = request_tokens(messages, schema, settings.max_output_tokens)
        texts = request_texts(messages, schema)

        async def attempt(messages: Messages, schema: Schema | None) -> Received[Completion]:
            async with self._server.paying("chat", expected, texts, most):
                return await self._attempt(messages, schema)

        probe = partial(attempt, [{"role": "user", "content": PROBE}], None)
        return await self._server.endpoint.send(partial(attempt, messages, schema), tokens, probe)

    async def _attempt(self, messages: Messages, schema: Schema | None) -> Received[Completion]:
        from openai.types.chat import ChatCompletion

        with sdk_errors(self._server):
            raw = await self._client.chat.completions.with_raw_response.create(
                **request_body(self._settings, messages, schema)
            )
            made = raw.parse()
        if not isinstance(made, ChatCompletion):
            raise self._garbled(f"the reply is not JSON: {str(made)[:80]!r}")
        completion = self._read(made)
        used = completion.usage
        return Received(completion, raw.headers, used.input_tokens + used.output_tokens or None)

    def batch_line(self, custom_id: str, messages: Messages, schema: Schema | None) -> str:
        """Return a request as a line of a batch's file."""
        body = request_body(self._settings, messages, schema)
        line = {"method": "POST", "url": "/v1/chat/completions", "body": body}
        return json.dumps({"custom_id": custom_id, **line}, ensure_ascii=False)

    def batches(self) -> "OpenAIBatches":
        """Return the interface to the batches of the account."""
        from rag_pipeline.models.providers.openai_batch import OpenAIBatches

        return OpenAIBatches(self._server, self._settings.timeout_seconds)

    def read_batched(self, body: Mapping[str, Any], call_id: str) -> Completion:
        """Return the answer in a line of a batch. Charge the answer once for its `call_id`."""
        from openai.types.chat import ChatCompletion

        try:
            made = ChatCompletion.model_validate(body)
        except ValueError as error:
            raise self._garbled(f"a batch line is not a completion: {str(error)[:80]}") from None
        return self._read(made, call_id)

    def _read(self, made: "ChatCompletion", call_id: str | None = None) -> Completion:
        try:
            return self._completion(made, call_id)
        except (AttributeError, TypeError, LookupError) as error:
            raise self._garbled(f"the reply is not a completion: {str(error)[:80]}") from None

    def _garbled(self, said: str) -> TransientError:
        return TransientError(f"{self._server.what}: {said}")

    def _completion(self, made: "ChatCompletion", call_id: str | None) -> Completion:
        reply_told(
            made.model, [c.finish_reason for c in made.choices or () if c and c.finish_reason]
        )
        usage = made.usage
        details = usage.prompt_tokens_details if usage else None
        used = Usage(
            usage.prompt_tokens if usage else 0,
            (details.cached_tokens or 0) if details else 0,
            usage.completion_tokens if usage else 0,
        )
        # The provider charges every answer, also an unusable answer.
        self._server.charge("chat", used, call_id, _is_written(made))
        choice = made.choices[0] if made.choices else None
        if choice is None or choice.message is None:
            # Some servers send an error with a success status.
            said = redacted(str(getattr(made, "error", None) or ""), self._server.key)
            raise self._garbled(f"the reply has no choices{said and ': '}{said}")
        message = choice.message
        cut = choice.finish_reason if choice.finish_reason in _CUT else ""
        if message.content is None and not cut:
            reason = message.refusal or "no reason given"
            raise ProviderError(f"{self._server.what}: refused: {reason}")
        # The cache must not store the key, which a server may echo.
        return Completion(without_secrets(_text(message.content)), used, cut)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _is_written(made: "ChatCompletion") -> bool:
    with suppress(AttributeError, TypeError, LookupError):
        return bool(made.choices[0].message.content)
    return False


def _text(content: Any) -> str:
    """Return a message's text, joined from its parts, without halves of surrogate pairs."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    return re.sub("[\ud800-\udfff]", "\ufffd", content or "")


def request_body(
    settings: OpenAIProtocol, messages: Messages, schema: Schema | None
) -> dict[str, Any]:
    """Return the body of a chat request. With a `schema`, the request asks for JSON."""
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": list(messages),
        "max_completion_tokens": settings.max_output_tokens,
    }
    parameters = {"temperature": settings.temperature, "seed": settings.seed}
    body |= {name: value for name, value in parameters.items() if value is not None}
    if schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": dict(schema), "strict": True},
        }
    return body


# --- embedding models ---


class OpenAIEmbedding(RemoteEmbedding):
    """A model `text-embedding-3-*` of OpenAI, or of any server with its protocol.

    An unknown model needs `dimensions`, the length of its vectors. Requests name this length if
    `shorten` is set, or if the length differs from the default of a known model.
    """

    provider: Literal["openai"]
    model: str = Field(default="text-embedding-3-small", min_length=1)
    api_key_env: str = "OPENAI_API_KEY"
    shorten: bool = False

    def open(self) -> "OpenAIEmbedder":
        """Return the model. Raise ConfigError if its dimensions are not known."""
        return OpenAIEmbedder(self)


class OpenAIEmbedder(RequestBuilder):
    """The client of one embedding model of one server. Documents and queries are embedded alike."""

    def __init__(self, settings: OpenAIEmbedding) -> None:
        super().__init__(settings, _HOME)
        usual = self.limits.dimensions[0] if self.limits.dimensions else None
        self._shorten = settings.shorten or (usual is not None and self.dimension != usual)
        cut = self.limits.text_tokens if settings.truncate else "whole"
        self.identity = self._server.identity(self.dimension, cut)

    def connected(self) -> "openai.AsyncOpenAI":
        """Open the connections of the running event loop."""
        return client_of(self._server, self._timeout, MOST_VECTOR_BYTES)

    async def ask(
        self, client: "openai.AsyncOpenAI", inputs: list[list[str]], input_type: InputType
    ) -> VectorsReply:
        """Return the vectors, usage and headers of a reply. Raise ProviderError if it fails."""
        import openai

        server = self._server
        texts = [text for own in inputs for text in own]
        try:
            with sdk_errors(server):
                raw = await client.embeddings.with_raw_response.create(
                    model=self.model,
                    input=texts,
                    dimensions=self.dimension if self._shorten else openai.omit,
                )
                made = raw.parse()
            used = Usage(made.usage.prompt_tokens if made.usage else 0)
            server.charge("embedding", used)
            rows = in_order(made.data, len(texts), server.what, attrgetter("index"))
        except (ValueError, TypeError, AttributeError) as error:
            raise TransientError(
                f"{server.what}: the reply is not a list of vectors: {str(error)[:80]}"
            ) from None
        return [row.embedding for row in rows], used, raw.headers
