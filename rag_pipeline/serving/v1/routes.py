"""Define the endpoints of `/v1`: passages, answers, documents, pages and corpora."""

from collections.abc import Callable

from pydantic import BaseModel
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from rag_pipeline.assistant import Assistant
from rag_pipeline.assistant.follow_up import complete
from rag_pipeline.assistant.results import Progress
from rag_pipeline.client import records
from rag_pipeline.client.records import Answer, AskBody, Passages, SearchBody
from rag_pipeline.serving.local import answer_record
from rag_pipeline.serving.messages import without_folders
from rag_pipeline.serving.pages import page_view
from rag_pipeline.serving.question_log import QuestionLog
from rag_pipeline.serving.tools import document_of, found_passages, health_of
from rag_pipeline.serving.tracing import record_trace
from rag_pipeline.serving.v1.endpoints import Endpoint
from rag_pipeline.serving.v1.streaming import event_stream


def endpoints(log: QuestionLog, seconds: float) -> list[Endpoint]:
    """Return the endpoints. They add each question to `log`. A stream lasts at most `seconds`."""

    def search(seen: Assistant, wanted: SearchBody, request: Request) -> Passages:
        log.keep(wanted.query, wanted.corpora)
        return found_passages(seen, wanted)

    def ask(seen: Assistant, wanted: AskBody, request: Request) -> Answer:
        return answered(seen, wanted, log)

    async def streamed(see: Callable[[], Assistant], wanted: AskBody, request: Request) -> Response:
        return await event_stream(
            lambda progress: answered(see(), wanted, log, progress),
            lambda name, *of: [_event("stage", records.Stage(name=name, done=of[0], total=of[1]))],
            lambda made: [_event("answer", made)],
            lambda message: [_event("error", records.Failure(error=message))],
            seconds,
        )

    return [
        Endpoint(
            path="/v1/search",
            summary="Find the best passages",
            takes=SearchBody,
            returns=Passages,
            work=search,
        ),
        Endpoint(
            path="/v1/ask",
            summary="Answer a question with checked sources",
            takes=AskBody,
            returns=Answer,
            work=ask,
            streams=streamed,
        ),
        Endpoint(
            path="/v1/documents/{document_id}",
            summary="Read a document as it was indexed",
            method="GET",
            takes=records.DocumentQuery,
            returns=records.DocumentPart,
            work=_document,
            missing=404,
        ),
        Endpoint(
            path="/v1/pages/{document_id}",
            summary="See a page of a PDF, with boxes around a span",
            method="GET",
            takes=records.PageQuery,
            returns=records.PageImage,
            work=lambda seen, wanted, request: page_view(seen, wanted),
            missing=404,
        ),
        Endpoint(
            path="/v1/corpora",
            summary="List the corpora",
            method="GET",
            takes=records.Nothing,
            returns=records.Corpora,
            work=lambda seen, wanted, request: records.Corpora.model_validate(
                {"corpora": health_of(seen).datasets}
            ),
        ),
    ]


def answered(
    seen: Assistant, wanted: AskBody, log: QuestionLog, progress: Progress | None = None
) -> Answer:
    """Answer a question, and add the question, completed by its turns, to the log."""
    log.keep(complete(wanted.query, wanted.turns), wanted.corpora)
    made = seen.ask(
        wanted.query,
        wanted.corpora or None,
        wanted.document_id or None,
        wanted.instructions,
        wanted.rewrite,
        wanted.contexts,
        progress,
        wanted.where or None,
        wanted.turns,
    )
    record_trace(made.trace)
    answer = answer_record(made, seen.places)
    steps = [
        step.model_copy(update={"detail": without_folders(step.detail)}) for step in answer.trace
    ]
    shown = {"trace": tuple(steps), "warnings": tuple(without_folders(answer.warnings))}
    return answer.model_copy(update=shown)


def _document(seen: Assistant, wanted: records.DocumentQuery, request: Request) -> BaseModel:
    corpora = [wanted.corpus] if wanted.corpus else None
    return document_of(seen, wanted.document_id, corpora, wanted.start, wanted.characters)


def _event(name: str, record: BaseModel) -> ServerSentEvent:
    return ServerSentEvent(record.model_dump_json(), event=name)
