"""Send JSON over HTTP to APIs without an SDK: connections, redirects and errors."""

import os
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from rag_pipeline.calls import LONGEST_TIMEOUT, redacted, unreachable
from rag_pipeline.errors import ProviderError, RefusedError, TransientError
from rag_pipeline.models.providers.remote import Server

if TYPE_CHECKING:
    import httpx


@asynccontextmanager
async def connected(server: Server, timeout: float) -> AsyncIterator["httpx.AsyncClient"]:
    """Open the connections of the running event loop to a server. `timeout` is in seconds."""
    import httpx

    async with httpx.AsyncClient(
        base_url=server.address.rstrip("/") + "/",
        headers={"Authorization": f"Bearer {server.key}"},
        # The endpoint limits the time of each attempt, and gives later attempts more time.
        timeout=httpx.Timeout(LONGEST_TIMEOUT * timeout, connect=timeout),
        limits=httpx.Limits(max_connections=None),
        follow_redirects=True,
        event_hooks=staying(MOST_TEXT_BYTES),
        verify=trusted("httpx"),
    ) as client:
        yield client


def check_redirect(status: int, here: str, location: str) -> None:
    """Raise RefusedError for a redirect to another origin or without the request's body.

    Only the configured origin, or https of the same host, gets texts. After a code other than 307
    and 308, a client would send a GET request without texts.
    """
    there = urljoin(here, location)
    old, new = urlsplit(here), urlsplit(there)
    stays = new[:2] == old[:2] or (new.hostname == old.hostname and new.scheme == "https")
    if status not in (307, 308) or not stays:
        said = redacted(f"{here}: the server redirects to {there} (HTTP {status})")
        raise RefusedError(said, "if that address is right, set `base_url` to it", inf)


async def _stay(reply: "httpx.Response") -> None:
    if reply.has_redirect_location:
        check_redirect(reply.status_code, str(reply.url), reply.headers["Location"])


def staying(most_bytes: int) -> dict[str, list[Any]]:
    """Return the event hooks of an httpx client that stays at its origin.

    A reply longer than `most_bytes` raises ProviderError, and its rest is not read.
    """

    async def bounded(reply: "httpx.Response") -> None:
        content = await read(reply.aiter_bytes(), most_bytes, reply.url.host)
        reply._content = content  # httpx returns this content to later readers

    return {"response": [_stay, bounded]}


async def read(parts: AsyncIterable[bytes], most_bytes: int, host: str | None) -> bytes:
    """Join the parts of a reply. Raise ProviderError if the reply is longer than `most_bytes`."""
    kept, size = [], 0
    async for part in parts:
        kept.append(part)
        size += len(part)
        if size > most_bytes:
            raise ProviderError(f"{host}: the reply is longer than {most_bytes:,} bytes")
    return b"".join(kept)


JSONReply = tuple[dict[str, Any], Mapping[str, str]]
"""The JSON object of a reply and the reply's headers."""
MOST_TEXT_BYTES = 16_000_000
"""Maximum length in bytes of a reply of a chat model or a reranker."""
MOST_VECTOR_BYTES = 256_000_000
"""Maximum length in bytes of a reply with vectors. 2,048 vectors of 4,096 numbers are 180 MB."""


def trusted(library: str) -> ssl.SSLContext:
    """Return the TLS context of an HTTP library. The first call takes 0.1 seconds of CPU time."""
    return _read(library, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@cache
def _read(library: str, *places: str | None) -> ssl.SSLContext:
    made: ssl.SSLContext = import_module(library).create_ssl_context()
    return made


async def post(
    server: Server, client: "httpx.AsyncClient", path: str, body: Mapping[str, Any]
) -> JSONReply:
    """Post `body`. Return the reply's JSON object and headers. Raise ProviderError if it fails."""
    import httpx

    try:
        reply = await client.post(path, json=body)
    except httpx.HTTPError as error:
        raise unreachable(server.what, error, server.key) from None
    if reply.status_code >= 300:
        raise server.refusal(reply.status_code, _reason(reply), reply.headers)
    try:
        made = reply.json()
    except (ValueError, RecursionError) as error:
        raise TransientError(f"{server.what}: the reply is not JSON: {str(error)[:80]}") from None
    if not isinstance(made, dict):
        raise TransientError(f"{server.what}: the reply is not a JSON object: {str(made)[:80]!r}")
    return made, reply.headers


def _reason(reply: "httpx.Response") -> str:
    try:
        body = reply.json()
    except (ValueError, RecursionError):
        return reply.text
    if isinstance(body, dict):
        said = body.get("message") or body.get("detail") or body.get("error")
        if isinstance(said, dict):
            said = said.get("message")
        return str(said or reply.text)
    return reply.text
