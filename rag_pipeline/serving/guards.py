"""Check the token, size, time, concurrency and rate of every request, and log the request."""

import asyncio
import hmac
import json
import logging
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_pipeline.calls.hosts import is_loopback
from rag_pipeline.datamodels import OPERATOR, Caller
from rag_pipeline.search import deadlines
from rag_pipeline.serving import dify
from rag_pipeline.serving.callers import Callers, bearer_token
from rag_pipeline.serving.local import is_local
from rag_pipeline.serving.messages import REQUEST_ID, logged
from rag_pipeline.serving.protected_resource import METADATA_PATHS, challenge
from rag_pipeline.serving.rates import Buckets
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline.serving.tracing import answered, request_span
from rag_pipeline.serving.turns import Turns

log = logging.getLogger("rag_pipeline.serving")
_OPEN_PATHS = ("/health", "/live", "/ready", "/", "/review")
"""Paths that need no token. Their replies contain nothing from the documents."""
_UNQUEUED = (*_OPEN_PATHS, "/metrics")
"""Paths that get a reply even while all threads work."""
_NOBODY = Caller(frozenset(), frozenset())
_GONE = 499
"""Status in logs and metrics if the client has disconnected, as in nginx."""
_MOST_HEADERS, _MOST_HEADER_BYTES = 100, 65_536
_SINGLE = (b"authorization", b"content-length", b"host", b"origin")
"""Headers that may occur only once. A proxy could read another value of a repeated header."""


def log_to_stderr() -> None:
    """Write only the server's log to standard error: one line per request, and warnings."""
    handler = logging.StreamHandler(sys.stderr)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


class Refused(Exception):  # noqa: N818 - the name reads well where it is raised
    """A refused request: status, reason and headers of the reply."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}


class Guards:
    """ASGI middleware that passes a request on, or refuses it with a reason of one line."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        turns: Turns,
        callers: Callers | None = None,
        count: Callable[[str, int, float, float], None] | None = None,
    ) -> None:
        """Limit the requests at work by `turns`.

        `count` gets the path and status of each reply, its total seconds, and its seconds in the
        queue.
        """
        self._app = app
        self._count_reply = count
        self.turns = turns
        self._settings = settings
        self._callers = callers
        self._proxy_headers = callers.proxy_headers if callers else set[str]()
        self._single = {*_SINGLE, *(name.encode() for name in self._proxy_headers)}
        self._issuers = callers.issuers if callers else []
        self._open_paths = {*_OPEN_PATHS, *(METADATA_PATHS if self._issuers else ())}
        self._running: Counter[str] = Counter()
        self._buckets = Buckets(settings.rates)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, trace it, and log one line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        REQUEST_ID.set(request_id)
        started = time.perf_counter()
        reply = _Reply(send, request_id)
        with request_span(scope, request_id) as span:
            try:
                await self._answer(scope, receive, reply)
            except Refused as refused:
                reason = {"error": refused.reason, "request_id": request_id}
                if scope["path"] == dify.PATH:
                    has_token = bool(bearer_token(_headers(scope)))
                    reason = dify.refusal(refused.status, refused.reason, has_token)
                await JSONResponse(reason, refused.status, refused.headers)(scope, receive, reply)
            finally:
                seconds = (reply.ended or time.perf_counter()) - started
                if self._count_reply is not None:
                    self._count_reply(scope["path"], reply.status or 500, seconds, reply.queued)
                asked = {"method": scope["method"], "path": logged(scope["path"])}
                line = {"request_id": request_id, **asked, "status": reply.status or 500}
                times = {
                    "milliseconds": round(1000 * seconds, 1),
                    "queued": round(1000 * reply.queued, 1),
                }
                now = datetime.now(UTC).isoformat(timespec="milliseconds")
                log.info(json.dumps({"time": now, **line, **times, "client": _client(scope)}))
            answered(span, reply.status or 500)

    async def _answer(self, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        headers = _headers(scope)
        self._check_rate(_client(scope), self._settings.requests_per_minute, "this address")
        self._check_headers(scope, headers)
        scope["state"]["caller"] = await self._caller(scope, headers)
        if self._callers and (limited := self._callers.limit_of(headers)):
            self._check_rate(*limited, "this token")
        # The body is read before a turn begins, because a slow client must not block others.
        body = await self._read_body(headers, receive) if scope["method"] != "GET" else b""
        client, most = _client(scope), self._settings.max_concurrency
        if self._running[client] >= max(1, most // 2):
            raise Refused(429, "this address has too many open requests", {"Retry-After": "1"})
        if self._running.total() >= most:
            raise Refused(429, "too many requests; try again", {"Retry-After": "1"})
        self._count(client, 1)
        try:
            async with _while_client_waits(receive, reply):
                await self._in_turn(scope, _replayed(body, receive), reply, client)
        finally:
            self._count(client, -1)

    async def _in_turn(self, scope: Scope, receive: Receive, reply: "_Reply", client: str) -> None:
        if scope["path"] in _UNQUEUED:
            await self._run(scope, receive, reply, client)
            return
        started = time.perf_counter()
        try:
            await self.turns.begin(client)
        except TimeoutError:
            raise Refused(429, "too many requests; try again", {"Retry-After": "1"}) from None
        finally:
            reply.queued = time.perf_counter() - started
        try:
            with deadlines.request() as work:
                await self._run(scope, receive, reply, client)
        except Refused:  # the client waits for this reply
            work.clear()
            raise
        finally:
            reply.ended = time.perf_counter()
            # A client that goes away must not begin other work before its threads end.
            left = [] if reply.is_whole else [asyncio.wrap_future(f) for f in work if not f.done()]
            try:
                await asyncio.gather(*left, return_exceptions=True)
            finally:
                self.turns.end(client)

    def _count(self, client: str, change: int) -> None:
        self._running[client] += change
        if not self._running[client]:
            del self._running[client]

    async def _run(self, scope: Scope, receive: Receive, reply: "_Reply", client: str) -> None:
        seconds, is_queued = self._settings.timeout_seconds, scope["path"] not in _UNQUEUED

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start" and not limit.expired():
                # Tools report their own timeout in the reply, so this limit is longer.
                limit.reschedule(asyncio.get_running_loop().time() + 2 * seconds)
            # A client that reads slowly must not block others.
            self._count(client, -1)
            if is_queued:
                self.turns.end(client)
            try:
                await reply(message)
            finally:
                self._count(client, 1)
                if is_queued:
                    self.turns.go_on(client)

        try:
            async with asyncio.timeout(seconds) as limit:
                await self._app(scope, receive, send)
        except TimeoutError:
            if reply.status:
                raise
            raise Refused(504, f"no answer within {seconds:g} s") from None

    def _check_headers(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse too many, too large or repeated headers.

        Without a token, also refuse requests from pages of other sites. After DNS rebinding, such a
        page sends its own name as Host.
        """
        names = [name for name, _ in scope["headers"]]
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(names) > _MOST_HEADERS or size > _MOST_HEADER_BYTES:
            limits = f"{_MOST_HEADERS} headers or {_MOST_HEADER_BYTES} bytes of headers"
            raise Refused(431, f"the request has more than {limits}")
        if any(names.count(name) > 1 for name in self._single):
            raise Refused(400, "a header occurs twice")
        if self._settings.needs_token:
            return
        if not _is_here(f"//{headers.get('host', '')}"):
            raise Refused(421, "without a token, the Host header must be a loopback name")
        if "origin" in headers and not _is_here(headers["origin"]):
            raise Refused(403, "pages of other sites are refused")

    async def _caller(self, scope: Scope, headers: dict[str, str]) -> Caller:
        """Return the caller. Refuse a request without a valid token if the server needs one."""
        settings, path = self._settings, scope["path"]
        if is_local(scope):
            return OPERATOR
        if path in self._open_paths:
            return _NOBODY
        if self._callers and (known := await self._callers.of(headers)):
            return known
        token, given = settings.token, bearer_token(headers)
        # A request with an invalid proxy header must not get the rights of the proxy's own token.
        if not settings.needs_token or (
            token
            and self._proxy_headers.isdisjoint(headers)
            and hmac.compare_digest(given.encode(), token.encode())
        ):
            return settings.caller
        said = challenge(scope, headers, self._issuers, bool(given))
        raise Refused(401, "a bearer token is needed", {"WWW-Authenticate": said})

    def _check_rate(self, name: str, per_minute: int, whose: str) -> None:
        if seconds := self._buckets.wait(name, per_minute):
            wait = {"Retry-After": str(max(1, round(seconds)))}
            raise Refused(429, f"too many requests from {whose}", wait)

    async def _read_body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """Return the whole body. Refuse a slow or large body before the application reads it."""
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
                        raise Refused(400, "the client disconnected")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limit:
                        raise Refused(413, f"the body has more than {limit} bytes")
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, "the body arrived too slowly") from None


class _Reply:
    """A reply with its request id. `status` is 0 until the reply begins."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._header = (b"x-request-id", request_id.encode())
        self.status = 0
        self.is_whole = False
        self.ended = 0.0
        """The time when its work ended, or 0."""
        self.queued = 0.0
        """Seconds that the request waited for its turn."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], self._header]}
        elif not message.get("more_body"):
            self.is_whole = True
        await self._send(message)


@asynccontextmanager
async def _while_client_waits(receive: Receive, reply: _Reply) -> AsyncIterator[None]:
    """Cancel the block if the client disconnects before its reply begins."""
    task, is_gone = asyncio.current_task(), False
    assert task is not None

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        if not reply.status:
            is_gone = task.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if reply.status:
            raise
        if not is_gone:
            raise Refused(503, "the server is stopping", {"Retry-After": "10"}) from None
        task.uncancel()
        raise Refused(_GONE, "the client has disconnected") from None
    finally:
        watching.cancel()


def _headers(scope: Scope) -> dict[str, str]:
    return {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}


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
