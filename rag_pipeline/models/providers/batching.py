"""Declare the interface of chat models that answer many requests as one batch."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rag_pipeline.config.models import Chat, Completion
from rag_pipeline.datamodels import Messages, Schema

MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
"""Maximum size of a file in bytes; the API takes 50,000 requests and 200 MB."""

_ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class Batch:
    """A submitted batch of requests. Its answers can be read once it has `ended`."""

    batch_id: str
    status: str
    files: tuple[str, ...]
    errors: tuple[str, ...]
    lines: int = 0
    """Minimum number of lines in its files, 0 if unknown."""

    @property
    def ended(self) -> bool:
        """Return whether the batch is finished, so that no further answers follow."""
        return self.status in _ENDED


class Batches(Protocol):
    """The batches of one account. Each batch carries a token, by which `find` finds it."""

    def submit(self, lines: Iterator[str], token: str) -> Batch:
        """Upload requests and start a batch that carries the token."""

    def find(self, token: str) -> Batch | None:
        """Return the newest batch that carries a token and has not failed, or None."""

    def get(self, batch_id: str) -> Batch | None:
        """Return the current state of a batch, or None if the provider has deleted it."""

    def answers(self, batch: Batch) -> Iterator[dict[str, Any]]:
        """Yield the lines with answers and the lines with errors, in any order."""

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class BatchedChat(Chat, Protocol):
    """A chat model that also answers many requests as one file, at a lower price."""

    def request(self, messages: Messages, schema: Schema | None) -> dict[str, Any]:
        """Return the body of a request in a batch."""

    def read_batched(self, body: Mapping[str, Any], call_id: str) -> Completion:
        """Return the answer in a line of a batch. Raise ProviderError if it has no answer."""

    def batches(self) -> Batches:
        """Return the interface to the batches of the account."""


def batch_line(custom_id: str, body: Mapping[str, Any]) -> str:
    """Return a request as a line of a batch's file."""
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False)
