"""Many chat requests as one file, through OpenAI's Batch API: answered within a day."""

import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import openai

from rag_pipeline.calls import failure_of_status, unreachable
from rag_pipeline.errors import ProviderError, keep_secret
from rag_pipeline.models.providers.batching import Batch
from rag_pipeline.models.providers.openai import OpenAIProtocol

_TOKEN = "rag_pipeline"
_BATCHES_PER_PAGE = 100
_MOST_LOOKED_AT = 1_000


class OpenAIBatches:
    """The batches of one account; each carries a token by which it is found again."""

    def __init__(self, settings: OpenAIProtocol) -> None:
        server = settings.base_url or "api.openai.com"
        self._what = f"{settings.model} at {server} ({settings.api_key_env}), batch"
        self._key = os.environ.get(settings.api_key_env)
        keep_secret(self._key)
        # What reads may be tried again by the SDK; `create` must not be, see `submit`.
        self._client = openai.OpenAI(
            api_key=self._key or "none",
            base_url=settings.base_url,
            timeout=settings.timeout_seconds,
            max_retries=5,
        )

    def submit(self, lines: Iterator[str], token: str) -> Batch:
        """Upload requests and start their batch, unless one with this token is there already.

        A lost answer to `create` may mean that the batch runs: it is looked for before it would
        be created again.
        """
        with tempfile.NamedTemporaryFile("w+b", suffix=".jsonl") as file:
            for line in lines:
                file.write(line.encode() + b"\n")
            file.flush()
            file.seek(0)
            name = f"{token}.jsonl"
            with _batch_errors(self._what, self._key):
                uploaded = self._client.files.create(file=(name, file), purpose="batch")
        create = self._client.with_options(max_retries=0).batches.create
        for is_last in (False, False, True):
            try:
                with _batch_errors(self._what, self._key):
                    made = create(
                        input_file_id=uploaded.id,
                        endpoint="/v1/chat/completions",
                        completion_window="24h",
                        metadata={_TOKEN: token},
                    )
                return _read(made)
            except ProviderError:
                found = self.find(token)
                if found is not None:
                    return found
                if is_last:
                    raise
        raise AssertionError("unreachable")

    def find(self, token: str) -> Batch | None:
        """Return the newest batch with a token, None if there is none that may bring answers."""
        with _batch_errors(self._what, self._key):
            newest = self._client.batches.list(limit=_BATCHES_PER_PAGE)
            for batch in itertools.islice(newest, _MOST_LOOKED_AT):
                if (batch.metadata or {}).get(_TOKEN) == token and batch.status != "failed":
                    return _read(batch)
        return None

    def get(self, batch_id: str) -> Batch | None:
        """Return a batch as it stands now, None if the provider has it no longer."""
        with _batch_errors(self._what, self._key):
            try:
                return _read(self._client.batches.retrieve(batch_id))
            except openai.NotFoundError:
                return None

    def answers(self, batch: Batch) -> Iterator[dict[str, Any]]:
        """Yield the answered lines and the failed ones, in no order."""
        for file_id in batch.files:
            with _batch_errors(self._what, self._key):
                try:
                    content = self._client.files.content(file_id)
                except openai.NotFoundError:  # kept for a month only
                    continue
                for line in content.iter_lines():
                    with suppress(ValueError):  # a broken line answers nothing
                        yield json.loads(line)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _read(batch: "openai.types.Batch") -> Batch:
    files = tuple(f for f in (batch.output_file_id, batch.error_file_id) if f)
    errors = batch.errors.data if batch.errors and batch.errors.data else []
    return Batch(batch.id, batch.status, files, tuple(e.message or "" for e in errors))


class _batch_errors:  # noqa: N801 - reads as a verb where it is used
    """Turn the SDK's exceptions into the pipeline's, without the key."""

    def __init__(self, what: str, key: str | None) -> None:
        self._what, self._key = what, key

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, openai.APIStatusError):
            headers = error.response.headers
            raise failure_of_status(
                self._what, error.status_code, error.message, headers, self._key
            ) from None
        if isinstance(error, openai.APIConnectionError):
            raise unreachable(self._what, error, self._key) from None
        if isinstance(error, ValueError):
            raise ProviderError(f"{self._what}: a reply is not JSON: {error}") from None
