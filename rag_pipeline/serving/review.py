"""Let people accept or reject synthetic questions on the web page of `rag serve --review`."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.released import ReleasedCorpus
from rag_pipeline.errors import InputError
from rag_pipeline.questions.review import decide, next_waiting, problem_of_words
from rag_pipeline.search.excerpt import excerpt
from rag_pipeline.serving.v1.endpoints import Endpoint
from rag_pipeline.workspace import Workspace


class ReviewRequest(BaseModel):
    """A dataset ("" for the first dataset) and the ids of skipped questions."""

    model_config = ConfigDict(extra="forbid", strict=True)
    dataset: str = Field(default="", max_length=200)
    after: list[str] = Field(default=[], max_length=10_000)


class ReviewDecided(ReviewRequest):
    """A decision on a question. `query` is its edited wording, or None.

    If `sure` is true, a wording with a problem is accepted, too.
    """

    query_id: str = Field(min_length=1, max_length=1000)
    decision: Literal["accept", "reject"]
    query: str | None = Field(default=None, max_length=2000)
    sure: bool = False


def reviewing() -> list[Endpoint]:
    """Return the endpoints of the review page."""
    said = "Review synthetic questions"

    def ask(own: Assistant, wanted: ReviewRequest, request: Request) -> Response:
        return JSONResponse(next_question(own, wanted))

    first = "/api/review/next", ReviewRequest, ask
    return [
        Endpoint(path=path, summary=said, takes=takes, returns=BaseModel, work=work)
        for path, takes, work in (first, ("/api/review/decide", ReviewDecided, decide_question))
    ]


def _workspace(own: Assistant, dataset: str) -> Workspace:
    """Return a corpus's workspace. Raise InputError if the caller may not see all documents."""
    shown = {
        n: d for n, d in own.corpora.items() if isinstance(d, ReleasedCorpus) and d.shows_all()
    }
    chosen = dataset or next(iter(shown), "")
    if chosen not in shown:
        raise InputError(f"no corpus {chosen!r} to review; there are: {', '.join(shown)}")
    return shown[chosen].corpus.workspace


def next_question(own: Assistant, wanted: ReviewRequest) -> dict[str, Any]:
    """Return the next question without a decision, or null, as a JSON object."""
    found = next_waiting(_workspace(own, wanted.dataset), wanted.after)
    if found is None:
        return {"question": None}
    record = found.record.model_dump(mode="json", include={"query_id", "query", "answer", "tags"})
    gold = [
        {"document_name": g.document_id, "text": excerpt(t, "", len(t)).text} for g, t in found.gold
    ]
    return {"question": {**record, "left": found.left, "gold": gold}}


def decide_question(own: Assistant, wanted: ReviewDecided, request: Request) -> Response:
    """Write a decision and return the next question.

    If an edited wording has a problem and `sure` is false, return the problem with status 409.
    """
    workspace = _workspace(own, wanted.dataset)
    found = next_waiting(workspace, [i for i in wanted.after if i != wanted.query_id])
    if found is None or found.record.query_id != wanted.query_id:
        raise InputError(f"{wanted.query_id!r} already has a decision; reload the page")
    words = (wanted.query or "").strip()
    if wanted.decision == "accept" and words and not wanted.sure:
        problem = problem_of_words(workspace, found, words)
        if problem is not None:
            return JSONResponse({"error": problem, "sure": False}, 409)
    decide(workspace.config, found.record, wanted.decision, words or None)
    return JSONResponse(next_question(own, wanted))
