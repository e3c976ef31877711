"""The HTTP application behind the guards: MCP, the web page with its data, Dify's source."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from rag_pipeline.assistant import Assistant
from rag_pipeline.errors import InputError, RagPipelineError
from rag_pipeline.serving.callers import Callers
from rag_pipeline.serving.dify import retrieval
from rag_pipeline.serving.guards import Guards
from rag_pipeline.serving.messages import told
from rag_pipeline.serving.pages import page_view
from rag_pipeline.serving.question_log import QuestionLog
from rag_pipeline.serving.review import (
    ReviewDecided,
    ReviewRequest,
    decide_question,
    next_question,
)
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline.serving.tools import AssistantAnswer, build_mcp, document_of, health_of
from rag_pipeline.serving.tracing import record_trace

_PAGES = Path(__file__).parent / "page"
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
Handler = Callable[[Request], Awaitable[Response]]
Body = TypeVar("Body", bound=BaseModel)


class _WantedDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    dataset: str = Field(default="", max_length=200)
    document_name: str = Field(min_length=1, max_length=1000)


class _AskBody(_WantedDocument):
    question: str = Field(max_length=4000)
    document_name: str = Field(default="", max_length=1000)


class _WantedPage(_WantedDocument):
    page: int | None = Field(default=None, ge=1)
    start: int = Field(default=0, ge=0)
    end: int = Field(default=0, ge=0)


def build_app(own: Assistant, settings: ServerSettings) -> Starlette:
    """Return the application that `rag serve` runs. Raise ConfigError for bad callers."""
    callers = Callers(settings.callers) if settings.callers else None
    log = QuestionLog(settings.log_questions)
    tools = build_mcp(own, settings.allowed_hosts, log, settings.timeout_seconds)
    mcp = tools.http_app(path="/mcp", stateless_http=True)

    async def health(request: Request) -> Response:
        made = await asyncio.to_thread(health_of, own)
        shown = {"status": made.status, "version": made.version}
        return JSONResponse(shown, 200 if made.status == "ok" else 503)

    async def datasets(request: Request) -> Response:
        made = await asyncio.to_thread(lambda: health_of(own.seen_by(request.state.caller)))
        return JSONResponse({"datasets": made.datasets})

    def ask(seen: Assistant, asked: _AskBody) -> BaseModel:
        datasets = [asked.dataset] if asked.dataset else None
        log.keep(asked.question, datasets)
        made = seen.ask(asked.question, datasets, asked.document_name or None)
        record_trace(made.trace)
        return AssistantAnswer.model_validate(made)

    def document(seen: Assistant, wanted: _WantedDocument) -> BaseModel:
        return document_of(seen, wanted.document_name, wanted.dataset, 0, None)

    def document_page(seen: Assistant, wanted: _WantedPage) -> BaseModel:
        place = (wanted.page, wanted.start, wanted.end)
        return page_view(seen, wanted.document_name, wanted.dataset, *place)

    async def dify(request: Request) -> Response:
        body, caller = await request.body(), request.state.caller
        status, value = await asyncio.to_thread(
            lambda: retrieval(own.seen_by(caller), body, log.keep)
        )
        return JSONResponse(value, status)

    answering = partial(_answering, own)
    routes = [
        _page("/", "index.html"),
        Route("/health", health),
        Route("/api/datasets", _clear(datasets)),
        answering("/api/ask", _AskBody, ask),
        answering("/api/document", _WantedDocument, document),
        answering("/api/page", _WantedPage, document_page),
        Route("/retrieval", _clear(dify), methods=["POST"]),
    ]
    if settings.review:
        routes += [
            _page("/review", "review.html"),
            answering("/api/review/next", ReviewRequest, next_question),
            answering("/api/review/decide", ReviewDecided, decide_question),
        ]
    app = Starlette(routes=[*routes, Mount("/", mcp)], lifespan=mcp.lifespan)
    app.add_middleware(Guards, settings=settings, callers=callers)
    return app


def _page(path: str, name: str) -> Route:
    async def page(request: Request) -> Response:
        return HTMLResponse((_PAGES / name).read_text(encoding="utf-8"), headers=_PAGE_HEADERS)

    return Route(path, page)


def _answering(
    own: Assistant, path: str, kind: type[Body], answer: Callable[[Assistant, Body], Any]
) -> Route:
    """Return a route that parses the body as `kind` and answers in a thread.

    `answer` gets the assistant with the corpora and documents that the caller may see.
    """

    async def handler(request: Request) -> Response:
        wanted, caller = kind.model_validate_json(await request.body()), request.state.caller
        made = await asyncio.to_thread(lambda: answer(own.seen_by(caller), wanted))
        if isinstance(made, Response):
            return made
        return JSONResponse(made.model_dump(mode="json") if isinstance(made, BaseModel) else made)

    return Route(path, _clear(handler), methods=["POST"])


def _clear(handler: Handler) -> Handler:
    """Answer an error with one line."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            return JSONResponse({"error": f"{place}: {first['msg']}".removeprefix(": ")}, 422)
        except InputError as error:
            return JSONResponse({"error": told(error)}, 400)
        except RagPipelineError as error:
            return JSONResponse({"error": told(error)}, 503)

    return answered
