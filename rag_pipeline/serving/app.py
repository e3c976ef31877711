"""Build the HTTP application: `/v1`, MCP, the web pages and Dify's external knowledge API.

`Guards` checks each request before the application gets it.
"""

import asyncio
import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from rag_pipeline.assistant import Assistant
from rag_pipeline.serving.callers import Callers
from rag_pipeline.serving.dify import PATH, retrieval
from rag_pipeline.serving.guards import Guards
from rag_pipeline.serving.local import answering
from rag_pipeline.serving.memory import OpenReleases, half_of_memory
from rag_pipeline.serving.metrics import Metrics
from rag_pipeline.serving.operations import operating, paths_of, turns_of
from rag_pipeline.serving.protected_resource import metadata_routes
from rag_pipeline.serving.question_log import QuestionLog
from rag_pipeline.serving.review import reviewing
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline.serving.tools import build_mcp
from rag_pipeline.serving.v1.endpoints import clear
from rag_pipeline.serving.v1.feedback import feedback_endpoint
from rag_pipeline.serving.v1.openai import openai_endpoints
from rag_pipeline.serving.v1.openapi import openapi
from rag_pipeline.serving.v1.routes import endpoints

_PAGES = Path(__file__).parent / "page"
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def build_app(own: Assistant, settings: ServerSettings) -> Starlette:
    """Return the application of `rag serve`.

    Raise ConfigError if the file of callers, a file to write or an allowed host is unusable.
    """
    callers = Callers(settings.callers) if settings.callers else None
    log = QuestionLog(settings.log_questions)
    tools = build_mcp(own, settings.allowed_hosts, log, settings.timeout_seconds)
    mcp = tools.http_app(path="/mcp", stateless_http=True)

    async def dify(request: Request) -> Response:
        body, caller = await request.body(), request.state.caller

        def respond() -> Response:
            status, value = retrieval(own.seen_by(caller), body, log.keep)
            return JSONResponse(value, status)

        return await asyncio.to_thread(respond)

    asked = log, settings.timeout_seconds
    described = [*endpoints(*asked), *openai_endpoints(*asked)]
    if settings.feedback:
        described.append(feedback_endpoint(settings.feedback))
    document = openapi(described)

    async def openapi_json(request: Request) -> Response:
        return JSONResponse(document)

    routes = [
        _page("/", "index.html"),
        Route("/openapi.json", openapi_json),
        *metadata_routes(callers.issuers if callers else []),
        *(endpoint.route(own) for endpoint in described),
        Route(PATH, clear(dify), methods=["POST"]),
    ]
    if settings.review:
        routes += [_page("/review", "review.html"), *(one.route(own) for one in reviewing())]
    opened = OpenReleases(own.corpora.values(), settings.memory_bytes or half_of_memory())
    routes.append(answering([one.corpus for one in opened.corpora]))
    turns = turns_of(own, settings, len(os.sched_getaffinity(0)))
    metrics = Metrics(opened, turns, {*paths_of(routes), "/mcp"})
    routes += operating(own, metrics, opened)
    app = Starlette(routes=[*routes, Mount("/", mcp)], lifespan=mcp.lifespan)
    app.state.opened = opened
    app.add_middleware(Guards, settings=settings, turns=turns, callers=callers, count=metrics.count)
    return app


def _page(path: str, name: str) -> Route:
    async def page(request: Request) -> Response:
        return HTMLResponse((_PAGES / name).read_text(encoding="utf-8"), headers=_PAGE_HEADERS)

    return Route(path, page)
