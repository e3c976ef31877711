"""Keep people's judgements of answers, for `rag questions import`."""

import uuid
from pathlib import Path
from typing import Any

from starlette.requests import Request

from rag_pipeline.assistant import Assistant
from rag_pipeline.client.records import Feedback, FeedbackBody, NamedPassage
from rag_pipeline.errors import InputError, StoreError
from rag_pipeline.serving.question_log import KeptLines
from rag_pipeline.serving.v1.endpoints import Endpoint


def feedback_endpoint(file: Path) -> Endpoint:
    """Return the endpoint that adds each judgement to a file, as a line of JSON.

    A passage must be in a document that the caller may see. The line has the caller's labels, and
    the text and content hash of each passage. Raise ConfigError if the file is not writable.
    """
    lines = KeptLines(file, "--feedback", durable=True)

    def keep(seen: Assistant, wanted: FeedbackBody, request: Request) -> Feedback:
        if wanted.corpus not in seen.corpora:
            raise InputError(f"no corpus {wanted.corpus[:80]!r}")
        labels = request.state.caller.labels
        record = {
            "id": uuid.uuid4().hex,
            **wanted.model_dump(exclude={"sources", "passage"}),
            "labels": "*" if labels is None else sorted(labels),
            "sources": [quoted_passage(seen, wanted.corpus, one) for one in wanted.sources],
            "passage": wanted.passage and quoted_passage(seen, wanted.corpus, wanted.passage),
        }
        try:
            if not lines.add(record):
                raise StoreError("the feedback was not stored: its file is full")
        except OSError as error:
            raise StoreError(f"the feedback was not stored: {error.strerror}") from None
        return Feedback(id=record["id"])

    return Endpoint(
        path="/v1/feedback",
        summary="Judge an answer, or name the right passage",
        takes=FeedbackBody,
        returns=Feedback,
        work=keep,
    )


def quoted_passage(seen: Assistant, corpus: str, passage: NamedPassage) -> dict[str, Any]:
    """Return a passage with its text and its document's content hash.

    Raise InputError for an invisible or unknown document, or for a span outside of it.
    """
    _, document = seen.find_document(passage.document_id, [corpus])
    if not passage.start < passage.end <= len(document.text):
        span = f"{passage.start} to {passage.end}"
        raise InputError(f"{passage.document_id[:200]!r} has no characters {span}")
    text = document.text[passage.start : passage.end]
    return {**passage.model_dump(), "content_hash": document.content_hash, "text": text}
