"""A webhook on this machine that keeps what is posted to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rag_pipeline_tests.testing.web import web

VARIABLE = "TINY_ALERTS_URL"


@dataclass
class Webhook:
    """Answers every post with `status`."""

    address: str = ""
    status: int = 200
    received: list[dict[str, Any]] = field(default_factory=list)

    def reply(self, path: str, body: Any) -> tuple[int, dict[str, str], bytes]:
        self.received.append(body)
        return self.status, {}, b""


@contextmanager
def listening() -> Iterator[Webhook]:
    """Run a webhook for as long as the block lasts."""
    webhook = Webhook()
    with web(webhook.reply) as server:
        webhook.address = f"{server.url}/secret-path"
        yield webhook
