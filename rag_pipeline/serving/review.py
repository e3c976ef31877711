"""A web page to decide on synthetic questions, for servers started with --review."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.corpora import ReleasedCorpus
from rag_pipeline.errors import InputError
from rag_pipeline.questions.review import decide, next_waiting, problem_of_words
from rag_pipeline.workspace import Workspace

_PAGE = Path(__file__).parent / "page" / "review.html"


class _Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    dataset: str = Field(default="", max_length=200)
    after: list[str] = Field(default=[], max_length=10_000)


class _Decided(_Wanted):
    query_id: str = Field(min_length=1, max_length=1000)
    decision: Literal["accept", "reject"]
    query: str | None = Field(default=None, max_length=2000)
    sure: bool = False


def review_routes(
    own: Assistant, clear: Callable[[Any], Any], headers: dict[str, str]
) -> Sequence[Route]:
    """Return the routes of the page, of the next question and of a decision."""

    async def page(request: Request) -> Response:
        return HTMLResponse(_PAGE.read_text(encoding="utf-8"), headers=headers)

    async def following(request: Request) -> Response:
        wanted = _Wanted.model_validate_json(await request.body())
        return JSONResponse(await asyncio.to_thread(_shown, own, wanted))

    async def decided(request: Request) -> Response:
        wanted = _Decided.model_validate_json(await request.body())
        problem = await asyncio.to_thread(_decide, own, wanted)
        if problem is not None:
            return JSONResponse({"error": problem, "sure": False}, 409)
        return JSONResponse(await asyncio.to_thread(_shown, own, wanted))

    return (
        Route("/review", page),
        Route("/api/review/next", clear(following), methods=["POST"]),
        Route("/api/review/decide", clear(decided), methods=["POST"]),
    )


def _workspace(own: Assistant, dataset: str) -> Workspace:
    names = [n for n, d in own.corpora.items() if isinstance(d, ReleasedCorpus)]
    chosen = dataset or (names[0] if names else "")
    held = own.corpora.get(chosen)
    if not isinstance(held, ReleasedCorpus):
        raise InputError(f"no corpus {chosen!r} is served; there are: {', '.join(names)}")
    return held.corpus.workspace


def _shown(own: Assistant, wanted: _Wanted) -> dict[str, Any]:
    found = next_waiting(_workspace(own, wanted.dataset), wanted.after)
    if found is None:
        return {"question": None}
    told = found.record.model_dump(mode="json", include={"query_id", "query", "answer", "tags"})
    gold = [{"document_name": g.document_id, "text": text} for g, text in found.gold]
    return {"question": {**told, "left": found.left, "gold": gold}}


def _decide(own: Assistant, wanted: _Decided) -> str | None:
    """Write a decision; return the fault of edited words, unless the person is sure."""
    workspace = _workspace(own, wanted.dataset)
    found = next_waiting(workspace, [i for i in wanted.after if i != wanted.query_id])
    if found is None or found.record.query_id != wanted.query_id:
        raise InputError(f"{wanted.query_id!r} does not wait for a decision any more; reload")
    words = (wanted.query or "").strip()
    if wanted.decision == "accept" and words and not wanted.sure:
        problem = problem_of_words(workspace, found, words)
        if problem is not None:
            return problem
    decide(workspace.config, found.record, wanted.decision, words or None)
    return None
