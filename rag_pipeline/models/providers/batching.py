"""What batches of requests are, whoever the provider is."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
"""Maximum size of a file in bytes; the API takes 50,000 requests and 200 MB."""

_ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class Batch:
    """A submitted file; its lines can be read when it has `ended`."""

    batch_id: str
    status: str
    files: tuple[str, ...]
    errors: tuple[str, ...]
    lines: int = 0
    """Least number of lines in its files, as far as the provider tells."""

    @property
    def ended(self) -> bool:
        """Return whether nothing more will be answered."""
        return self.status in _ENDED


class Batches(Protocol):
    """The batches of one account; each carries a token by which it is found again."""

    def submit(self, lines: Iterator[str], token: str) -> Batch:
        """Upload requests and start their batch, unless one with this token is there already."""

    def find(self, token: str) -> Batch | None:
        """Return the newest batch with a token, None if there is none that may bring answers."""

    def get(self, batch_id: str) -> Batch | None:
        """Return a batch as it stands now, None if the provider has it no longer."""

    def answers(self, batch: Batch) -> Iterator[dict[str, Any]]:
        """Yield the answered lines and the failed ones, in no order."""

    def close(self) -> None:
        """Close the connections."""


def batch_line(custom_id: str, body: Mapping[str, Any]) -> str:
    """Return a request as a line of a batch's file."""
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False)
