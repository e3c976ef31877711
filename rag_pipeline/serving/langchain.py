"""LangChain: a release as a retriever, and a wrapper that measures what any retriever returns.

>>> retriever = RagPipelineRetriever(corpus=Corpus.load("contracts.yaml"), k=5)
>>> with MeasuringRetriever(retriever=retriever, on_measured=print) as measured:
...     measured.invoke("How long does confidentiality last?")
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Lock, Thread
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr

from rag_pipeline.answering import SentenceEmbed, extract_answers
from rag_pipeline.assistant import sentence_vectors
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import Answer, Answered, Query, ScoredChunk
from rag_pipeline.errors import MissingExtraError
from rag_pipeline.evaluation.context_quality.rules import RuleContext, judge_by_rules
from rag_pipeline.evaluation.context_quality.scores import context_metrics
from rag_pipeline.loading.places import Place

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError:
    raise MissingExtraError("langchain-core", "langchain") from None

log = logging.getLogger(__name__)


class RagPipelineRetriever(BaseRetriever):
    """Searches a corpus's release; a newer release is searched as soon as it is open.

    A document's text is the chunk's own. Its metadata are those of the corpus's document, and
    `document_id`, `start`, `end` (code points of the document's text), `score`, `title` and
    `place`: a `label`, and what the format tells, such as page, section, sheet, row or slide.
    Raises what `Corpus.search` raises.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    corpus: Corpus
    k: int = Field(default=5, ge=1)
    where: str | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        # LangChain runs this in a thread where it is awaited; a search lets other threads go on.
        chunks = self.corpus.search(query, self.k, self.where)
        places = self.corpus.places(chunks)
        return [_document(chunk, place) for chunk, place in zip(chunks, places, strict=True)]


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics of the contexts of one query; see `evaluation.context_quality`."""

    query: str
    contexts: int
    metrics: dict[str, float | None]


def log_measured(measured: Measured) -> None:
    """Log a measurement at level INFO."""
    log.info("%r: %d contexts, %s", measured.query, measured.contexts, measured.metrics)


class MeasuringRetriever(BaseRetriever):
    """Returns what another retriever returns, and has it scored by a thread of its own.

    Levels are by the nearest sentence's cosine, use by the answer: the one told to `measure`, or
    extracted from the contexts as the offline default answers. At most `waiting` queries wait to
    be scored; those beyond are not, and `skipped` counts them. A query that can't be scored is
    logged and counted in `failed`. Call `close`, or use it in `with`, to have the last ones scored.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    retriever: BaseRetriever
    on_measured: Callable[[Measured], Any] = log_measured
    settings: RuleContext = RuleContext()
    embed: SentenceEmbed = sentence_vectors
    waiting: int = Field(default=100, ge=1)
    _queue: "Queue[tuple[str, Sequence[Document], str | None]]" = PrivateAttr()
    _lock: Any = PrivateAttr(default_factory=Lock)
    _worker: Thread | None = PrivateAttr(default=None)
    _skipped: int = PrivateAttr(default=0)
    _failed: int = PrivateAttr(default=0)

    def model_post_init(self, context: Any) -> None:
        """Make the queue."""
        super().model_post_init(context)
        self._queue = Queue(self.waiting)

    @property
    def skipped(self) -> int:
        """Return how many queries were not scored because too many waited."""
        return self._skipped

    @property
    def failed(self) -> int:
        """Return how many queries could not be scored."""
        return self._failed

    def measure(self, query: str, documents: Sequence[Document], answer: str | None = None) -> None:
        """Have a query's contexts scored, best first, and the answer that was made from them."""
        with self._lock:
            try:
                self._queue.put_nowait((query, documents, answer))
            except Full:
                self._skipped += 1
                return
            if self._worker is None:  # it ends when nothing is left to do
                self._worker = Thread(target=self._work, name="measuring", daemon=True)
                self._worker.start()

    def close(self) -> None:
        """Wait until everything that was taken is scored."""
        while (worker := self._worker) is not None:
            worker.join()

    def __enter__(self) -> "MeasuringRetriever":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = self.retriever.invoke(query, {"callbacks": run_manager.get_child()})
        self.measure(query, tuple(found))
        return found

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = await self.retriever.ainvoke(query, {"callbacks": run_manager.get_child()})
        self.measure(query, tuple(found))
        return found

    def _work(self) -> None:
        while True:
            with self._lock:
                try:
                    query, documents, answer = self._queue.get_nowait()
                except Empty:
                    self._worker = None
                    return
            try:
                self.on_measured(self._measured(query, documents, answer))
            except Exception:  # measuring must not take the application down
                self._failed += 1
                log.exception("a query's contexts can't be scored")

    def _measured(self, query: str, documents: Sequence[Document], answer: str | None) -> Measured:
        chunks = [_chunk(document, rank) for rank, document in enumerate(documents)]
        if answer is not None:
            given = Answer(answer, answered=bool(answer.strip()))
        else:
            asked_of = [(query, chunks)]
            (given,) = extract_answers(asked_of, ExtractiveAnswers(), sentence_vectors)
        answered = Answered(Query("measured", query), chunks, given)
        (judged,) = judge_by_rules([answered], self.settings, self.embed)
        return Measured(query, len(chunks), context_metrics(judged, self.settings))


def _document(chunk: ScoredChunk, place: Place | None) -> Document:
    return Document(
        chunk.text,
        id=chunk.chunk_id,
        metadata={
            **chunk.metadata,
            "document_id": chunk.document_id,
            "start": chunk.start,
            "end": chunk.end,
            "score": chunk.score,
            "title": chunk.title,
            **({"place": place.record()} if place else {}),
        },
    )


def _chunk(document: Document, rank: int) -> ScoredChunk:
    """Return any retriever's document as a chunk; one without a place stands alone."""
    name = document.metadata.get("document_id") or document.metadata.get("source")
    start = document.metadata.get("start")
    start = start if isinstance(start, int) else 0
    return ScoredChunk(
        document.id or str(rank),
        str(name or rank),
        start,
        start + len(document.page_content),
        document.page_content,
        1.0 / (rank + 1),
    )
