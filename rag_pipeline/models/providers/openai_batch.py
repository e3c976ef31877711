"""Send many chat requests as one file to OpenAI's Batch API, which answers within a day."""

import itertools
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import openai

from rag_pipeline.errors import ProviderError, TransientError
from rag_pipeline.models.providers.openai_sdk import sdk_errors
from rag_pipeline.models.providers.remote import Server

_ENDED = ("completed", "failed", "expired", "cancelled")
_TOKEN = "rag_pipeline"
_BATCHES_PER_PAGE = 100
_MOST_LOOKED_AT = 1_000
_TRIES = 8
_DOWNLOADS = 4
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.5, 8.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """A submitted batch of requests. An `ended` batch has all its answers."""

    batch_id: str
    status: str
    files: tuple[str, ...]
    errors: tuple[str, ...]
    lines: int = 0
    """Minimum number of lines in the files, or 0 if unknown."""

    @property
    def ended(self) -> bool:
        """Return whether no further answers follow."""
        return self.status in _ENDED


class OpenAIBatches:
    """The batches of one account. `find` finds a batch by the token in its metadata."""

    def __init__(self, server: Server, timeout: float) -> None:
        """Connect to the server. `timeout` is the time limit of a request in seconds."""
        self._server = server
        # `_tried` retries instead, because the SDK detects no garbled reply and no lost `create`.
        self._client = openai.OpenAI(
            api_key=server.key, base_url=server.address, timeout=timeout, max_retries=0
        )

    def submit(self, lines: Iterator[str], token: str) -> Batch:
        """Upload requests, and start a batch with the token.

        If the reply to `create` is lost, the batch may still run, so `find` looks for it.
        """
        with tempfile.NamedTemporaryFile("w+b", suffix=".jsonl") as file:
            for line in lines:
                file.write(line.encode() + b"\n")

            def upload() -> str:
                file.seek(0)
                made = self._client.files.create(file=(f"{token}.jsonl", file), purpose="batch")
                return _is_a(made, openai.types.FileObject).id

            uploaded = self._tried(upload)

        def create() -> Batch:
            made = self._client.batches.create(
                input_file_id=uploaded,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={_TOKEN: token},
            )
            return _read(made)

        return self._tried(create, lost=lambda: self.find(token))

    def _tried(self, work: Callable[[], T], lost: Callable[[], T | None] = lambda: None) -> T:
        """Return the result of a request, after up to eight attempts.

        A failed request may have worked without a reply. `lost` returns its result, or None.
        """
        for tries in range(1, _TRIES + 1):
            try:
                with sdk_errors(self._server):
                    return work()
            except ProviderError as error:
                found = lost()
                if found is not None:
                    return found
                if tries == _TRIES or not isinstance(error, TransientError):
                    raise
                ceiling = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2**tries)
                time.sleep((error.retry_after or 0.0) + random.uniform(0, ceiling))
        raise AssertionError("unreachable")

    def find(self, token: str) -> Batch | None:
        """Return the newest batch with a token that has not failed, or None."""

        def look() -> Batch | None:
            newest = self._client.batches.list(limit=_BATCHES_PER_PAGE)
            for batch in itertools.islice(newest, _MOST_LOOKED_AT):
                batch = _is_a(batch, openai.types.Batch)
                if (batch.metadata or {}).get(_TOKEN) == token and batch.status != "failed":
                    return _read(batch)
            return None

        return self._tried(look)

    def get(self, batch_id: str) -> Batch | None:
        """Return the current state of a batch, or None if the provider has deleted it."""

        def look() -> Batch | None:
            try:
                return _read(self._client.batches.retrieve(batch_id))
            except openai.NotFoundError:
                return None

        return self._tried(look)

    def answers(self, batch: Batch) -> Iterator[dict[str, Any]]:
        """Yield the lines with answers and the lines with errors, in any order.

        Read an incomplete file up to three times more, because each missing line is sent again.
        """
        seen: set[str] = set()
        for _ in range(_DOWNLOADS):
            for file_id in batch.files:
                for line in self._tried(partial(self._lines, file_id)):
                    with suppress(ValueError):  # a broken line
                        answer = json.loads(line)
                        name = str(answer.get("custom_id")) if isinstance(answer, dict) else ""
                        if name not in seen:
                            seen.add(name)
                            yield answer
            if len(seen) >= batch.lines:
                return

    def _lines(self, file_id: str) -> Iterator[str]:
        try:
            return self._client.files.content(file_id).iter_lines()
        except openai.NotFoundError:  # OpenAI keeps a file for a month
            return iter(())

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _is_a(reply: object, kind: type[T]) -> T:
    """Return a reply of the given kind. Raise TransientError for any other reply."""
    if not isinstance(reply, kind) or not getattr(reply, "id", None):
        raise TransientError(f"the reply is not a {kind.__name__}: {str(reply)[:80]!r}")
    return reply


def _read(batch: object) -> Batch:
    batch = _is_a(batch, openai.types.Batch)
    files = tuple(f for f in (batch.output_file_id, batch.error_file_id) if f)
    errors = batch.errors.data if batch.errors and batch.errors.data else []
    counts = batch.request_counts
    lines = (counts.completed or 0) + (counts.failed or 0) if counts else 0
    return Batch(batch.id, batch.status, files, tuple(e.message or "" for e in errors), lines)
