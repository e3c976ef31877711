"""Chat models behind the OpenAI protocol, through the `openai` SDK."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import openai

from rag_pipeline.calls import Received, open_endpoint, redacted
from rag_pipeline.calls.costs import paying, record, request_texts, request_tokens
from rag_pipeline.calls.telemetry import reply_told
from rag_pipeline.config.models import Completion
from rag_pipeline.datamodels import Messages, Schema, Usage
from rag_pipeline.errors import ProviderError, TransientError, keep_secret, without_secrets
from rag_pipeline.models.providers.openai import OpenAIProtocol
from rag_pipeline.models.providers.openai_batch import OpenAIBatches
from rag_pipeline.models.providers.openai_sdk import client_of, key_of, sdk_errors

_CHARACTERS_PER_TOKEN = 4
_CUT = ("length", "content_filter")
"""Finish reasons of replies that are not whole."""


class OpenAIChat:
    """One chat model of one server."""

    def __init__(self, settings: OpenAIProtocol, key: str | None = None) -> None:
        server = settings.base_url or "api.openai.com"
        self.identity = settings.identity
        self.max_concurrency = settings.max_concurrency
        self._what = f"{settings.model} at {server}"
        self._settings = settings
        keep_secret(key)
        self._key = key or key_of(settings)
        self._endpoint = open_endpoint(self._what, settings)
        self._client = client_of(self._key, settings.base_url, settings.timeout_seconds)

    async def complete(self, messages: Messages, schema: Schema | None) -> Completion:
        """Answer messages; raise ProviderError with the server's reason."""
        size = sum(len(message["content"]) for message in messages)
        tokens = size / _CHARACTERS_PER_TOKEN + self._settings.max_output_tokens

        settings = self._settings
        expected, most = request_tokens(messages, schema, settings.max_output_tokens)
        told = expected, most, settings.base_url, request_texts(messages, schema)

        async def attempt() -> Received[Completion]:
            async with paying("chat", settings.provider, settings.model, *told):
                return await self._attempt(messages, schema)

        return await self._endpoint.send(attempt, tokens)

    async def _attempt(self, messages: Messages, schema: Schema | None) -> Received[Completion]:
        with sdk_errors(self._what, self._settings, self._key):
            raw = await self._client.chat.completions.with_raw_response.create(
                **self.request(messages, schema)
            )
            made = raw.parse()
        if not isinstance(made, openai.types.chat.ChatCompletion):
            raise TransientError(f"{self._what}: the reply is not JSON: {str(made)[:80]!r}")
        completion = self._read(made)
        used = completion.usage
        return Received(completion, raw.headers, used.input_tokens + used.output_tokens or None)

    def request(self, messages: Messages, schema: Schema | None) -> dict[str, Any]:
        """Return the body of a request."""
        return request_body(self._settings, messages, schema)

    def batches(self) -> OpenAIBatches:
        """Return the batches of the account."""
        return OpenAIBatches(self._settings)

    def read_batched(self, body: Mapping[str, Any], call_id: str) -> Completion:
        """Return the answer to a request that went in a batch, charged once for its `call_id`."""
        try:
            made = openai.types.chat.ChatCompletion.model_validate(body)
        except ValueError as error:
            raise TransientError(
                f"{self._what}: a line of a batch is no completion: {str(error)[:80]}"
            ) from None
        return self._read(made, call_id)

    def _read(
        self, made: "openai.types.chat.ChatCompletion", call_id: str | None = None
    ) -> Completion:
        try:
            return self._completion(made, call_id)
        except (AttributeError, TypeError, LookupError) as error:
            raise TransientError(
                f"{self._what}: the reply is no completion: {str(error)[:80]}"
            ) from None

    def _completion(
        self, made: "openai.types.chat.ChatCompletion", call_id: str | None
    ) -> Completion:
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
        # Whatever the answer says, it is paid for.
        settings, address = self._settings, self._settings.base_url
        charged = {**asdict(used), "batch": call_id is not None, "call_id": call_id}
        record("chat", settings.provider, settings.model, base_url=address, **charged)
        choice = made.choices[0] if made.choices else None
        if choice is None or choice.message is None:
            # Some servers send an error with the status of a success.
            said = redacted(str(getattr(made, "error", None) or ""), self._key)
            raise TransientError(f"{self._what}: the reply has no choices{said and ': '}{said}")
        message = choice.message
        cut = choice.finish_reason if choice.finish_reason in _CUT else ""
        if message.content is None and not cut:
            raise ProviderError(f"{self._what}: refused: {message.refusal or 'no reason given'}")
        # A server that echoes its request must not bring the key into the cache.
        return Completion(without_secrets(_text(message.content)), used, cut)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _text(content: Any) -> str:
    """Return what a message says, which some servers send in parts; half a surrogate is U+FFFD."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    return re.sub("[\ud800-\udfff]", "\ufffd", content or "")


def request_body(
    settings: OpenAIProtocol, messages: Messages, schema: Schema | None
) -> dict[str, Any]:
    """Return what a chat model is sent, for an answer of a JSON schema if there is one."""
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
