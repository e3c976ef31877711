"""Serve the state and the metrics of a server to operators and load balancers."""

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.released import ReleasedCorpus
from rag_pipeline.config.endpoints import remote_models
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.serving.memory import OpenReleases
from rag_pipeline.serving.messages import told
from rag_pipeline.serving.metrics import CONTENT_TYPE, Metrics
from rag_pipeline.serving.settings import ServerSettings
from rag_pipeline.serving.tools import health_of
from rag_pipeline.serving.turns import Turns

_WAITING_THREADS = 64
"""Number of requests at work if they mostly wait for a model's server."""


def turns_of(own: Assistant, settings: ServerSettings, processors: int) -> Turns:
    """Return the `Turns` of a server for the number of requests in `ServerSettings.threads`."""
    released = [one for one in own.corpora.values() if isinstance(one, ReleasedCorpus)]
    asks = own.model is not None or bool(settings.allowed_hosts)
    asks = asks or any(any(remote_models(one.corpus.config)) for one in released)
    own_share = max(2, 2 * processors // settings.workers)
    threads = settings.threads or (_WAITING_THREADS if asks else own_share)
    return Turns(threads, settings.wait_seconds)


def paths_of(routes: Sequence[BaseRoute]) -> set[str]:
    """Return the first two parts of each path."""
    return {"/".join(path.split("/")[:3]) for one in routes if (path := getattr(one, "path", ""))}


def operating(own: Assistant, metrics: Metrics, opened: OpenReleases) -> list[Route]:
    """Return the routes `/health`, `/live`, `/ready` and `/metrics`."""

    async def health(request: Request) -> Response:
        made = await asyncio.to_thread(health_of, own)
        shown = {"status": made.status, "version": made.version}
        return JSONResponse(shown, 200 if made.status == "ok" else 503)

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if getattr(request.app.state, "is_stopping", False):
            return JSONResponse({"status": "stopping"}, 503)
        try:
            # If memory was too small for all corpora, this reads only the manifests.
            await asyncio.to_thread(
                lambda: [
                    one.corpus.searched() if opened.closed else one.corpus.open()
                    for one in opened.corpora
                ]
            )
        except RagPipelineError as error:
            return JSONResponse({"status": told(error)}, 503)
        return JSONResponse({"status": "ok"})

    async def figures(request: Request) -> Response:
        if request.state.caller.corpora is not None:
            return JSONResponse({"error": "this token is limited to some corpora"}, 403)
        return Response(await asyncio.to_thread(metrics.shown), media_type=CONTENT_TYPE)

    return [
        Route("/health", health),
        Route("/live", live),
        Route("/ready", ready),
        Route("/metrics", figures),
    ]
