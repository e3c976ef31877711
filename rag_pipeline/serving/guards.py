"""What stands before every request: token, size, time, concurrency and rate limits, and the log."""

import asyncio
import hmac
import json
import logging
import sys
import time
import uuid
from collections import OrderedDict
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_pipeline.calls.addresses import is_loopback
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline.serving.tracing import answered, request_span

log = logging.getLogger("rag_pipeline.serving")
_OPEN_PATHS = ("/health", "/", "/review")
"""Paths that are answered without a token; they tell nothing of the documents."""
_REMEMBERED_CLIENTS = 10_000
_MOST_HEADERS, _MOST_HEADER_BYTES = 100, 65_536
_SINGLE = (b"authorization", b"content-length", b"host", b"origin")
"""Headers that a request may have once: two could be read differently here and by a proxy."""


def log_to_stderr() -> None:
    """Show the line of each request, and nothing else of this package's logs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


class Refused(Exception):  # noqa: N818 - reads as what happened to the request
    """A request that is not let in."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}


class Guards:
    """ASGI middleware that lets a request in, or says in one line why not."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._running = 0
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        with request_span(scope, request_id) as span:
            answered(span, await self._answer(scope, receive, send, request_id))

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> int:
        """Answer a request; return the status it was answered with."""
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        started = time.perf_counter()
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = (b"x-request-id", request_id.encode())
                message = {**message, "headers": [*message["headers"], named]}
            await send(message)

        scope.setdefault("state", {})["request_id"] = request_id
        entered = False
        try:
            self._check_rate(_client(scope))
            self._check_headers(scope, headers)
            self._check_token(scope["path"], headers)
            # Before a place is taken: a client that sends slowly must not keep others out.
            body = await self._read_body(headers, receive) if scope["method"] != "GET" else b""
            if self._running >= self._settings.max_concurrency:
                raise Refused(503, "too many requests at once; try again", {"Retry-After": "1"})
            self._running += 1
            entered = True
            await self._run(scope, _replayed(body, receive), answer)
        except Refused as refused:
            status = refused.status
            told = {"error": refused.reason, "request_id": request_id}
            own = {**refused.headers, "x-request-id": request_id}
            await JSONResponse(told, status, own)(scope, receive, send)
        finally:
            self._running -= entered
            milliseconds = round(1000 * (time.perf_counter() - started), 1)
            asked = {"method": scope["method"], "path": scope["path"][:200]}
            line = {"request_id": request_id, **asked, "status": status}
            log.info(json.dumps({**line, "milliseconds": milliseconds}))
        return status

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":  # an open stream of notifications may last
            await self._app(scope, receive, send)
            return
        began = False

        async def watched(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await send(message)

        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                await self._app(scope, receive, watched)
        except TimeoutError:
            if began:
                raise
            raise Refused(504, f"not answered in {self._settings.timeout_seconds:g} s") from None
        except asyncio.CancelledError:
            if began:
                raise
            raise Refused(503, "the server is stopping", {"Retry-After": "10"}) from None

    def _check_headers(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse odd headers and, where no token is needed, other sites' pages.

        A page whose name was made to point here (DNS rebinding) sends its own name as Host.
        """
        names = [name for name, _ in scope["headers"]]
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(names) > _MOST_HEADERS or size > _MOST_HEADER_BYTES:
            raise Refused(431, "too many headers")
        if any(names.count(name) > 1 for name in _SINGLE):
            raise Refused(400, "a header is there twice")
        if self._settings.token is not None:
            return
        if not _is_here(f"//{headers.get('host', '')}"):
            raise Refused(421, "without a token the server answers by its loopback name only")
        if "origin" in headers and not _is_here(headers["origin"]):
            raise Refused(403, "another site's page may not ask")

    def _check_token(self, path: str, headers: dict[str, str]) -> None:
        token = self._settings.token
        if token is None or path in _OPEN_PATHS:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            given.strip().encode(), token.encode()
        ):
            raise Refused(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})

    def _check_rate(self, client: str) -> None:
        """Take one from the client's bucket, which refills evenly and holds a tenth of a minute."""
        per_second = self._settings.requests_per_minute / 60
        size = max(self._settings.requests_per_minute / 10, 1.0)
        now = time.monotonic()
        left, since = self._clients.pop(client, (size, now))
        left = min(size, left + (now - since) * per_second)
        self._clients[client] = (max(left - 1, 0.0), now)
        while len(self._clients) > _REMEMBERED_CLIENTS:
            self._clients.popitem(last=False)
        if left < 1:
            wait = str(max(1, round((1 - left) / per_second)))
            raise Refused(429, "too many requests from this address", {"Retry-After": wait})

    async def _read_body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """Read a body as a whole, so that a slow or endless one never reaches the application."""
        limit = self._settings.max_body_bytes
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > limit:
            raise Refused(413, f"the body has more than {limit} bytes")
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the client went away")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise Refused(413, f"the body has more than {limit} bytes")
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, "the body came too slowly") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _is_here(address: str) -> bool:
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
