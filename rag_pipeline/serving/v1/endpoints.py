"""Describe each endpoint. The models check requests and define the OpenAPI document."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rag_pipeline.assistant import Assistant
from rag_pipeline.errors import InputError, RagPipelineError, first_problem
from rag_pipeline.serving.messages import REQUEST_ID, told

Handler = Callable[[Request], Awaitable[Response]]
Form = Callable[[str, int], dict[str, Any]]
"""Returns the JSON of an error from its message and status."""
Streaming = Callable[[Callable[[], Assistant], Any, Request], Awaitable[Response]]
"""Streams a reply. The first argument is a function that returns the assistant and may block."""


class NotFoundError(InputError):
    """The address of a request contains an unknown name."""


def failure(message: str, status: int) -> dict[str, Any]:
    """Return an error in this server's form."""
    return {"error": message, "request_id": REQUEST_ID.get()}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A path with the models of its request and reply.

    - `takes`: The model of the JSON body, or for GET the model of the parameters in path and query.
    - `returns`: The model of the reply.
    - `work`: Makes the reply in a thread, with an assistant for the caller.
    - `streams`: Answers a request with the field `stream: true`. None means no streaming.
    - `missing`: The HTTP status of an InputError.
    - `form`: Makes the JSON of an error.
    """

    path: str
    summary: str
    takes: type[BaseModel]
    returns: type[BaseModel]
    work: Callable[[Assistant, Any, Request], BaseModel | Response]
    method: str = "POST"
    streams: Streaming | None = None
    missing: int = 400
    form: Form = failure

    def route(self, own: Assistant) -> Route:
        """Return the route that answers with the assistant `own`."""

        async def handler(request: Request) -> Response:
            wanted, caller = await self._read(request), request.state.caller
            if self.streams is not None and getattr(wanted, "stream", False):
                return await self.streams(lambda: own.seen_by(caller), wanted, request)

            def respond() -> Response:
                made = self.work(own.seen_by(caller), wanted, request)
                if isinstance(made, Response):
                    return made
                return Response(made.model_dump_json(), media_type="application/json")

            return await asyncio.to_thread(respond)

        path = self.path.replace("{document_id}", "{document_id:path}")
        return Route(path, clear(handler, self.missing, self.form), methods=[self.method])

    async def _read(self, request: Request) -> BaseModel:
        if self.method == "GET":
            return self.takes.model_validate({**request.query_params, **request.path_params})
        return self.takes.model_validate_json(await request.body())


def clear(handler: Handler, missing: int = 400, form: Form = failure) -> Handler:
    """Return a handler that turns errors of `handler` into a status and a message of one line."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except ValidationError as error:
            status, message = 422, first_problem(error)
        except InputError as error:
            status = 404 if isinstance(error, NotFoundError) else missing
            message = told(error)
        except RagPipelineError as error:
            status, message = 503, told(error)
        return JSONResponse(form(message, status), status)

    return answered
