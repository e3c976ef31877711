"""Give LangChain a retriever for a release, and measure any LangChain retriever.

>>> retriever = RagPipelineRetriever(corpus=Corpus.load("contracts.yaml"), k=5)
>>> with MeasuringRetriever(retriever=retriever, on_measured=print) as measured:
...     measured.invoke("How long does confidentiality last?")
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr

from rag_pipeline.answering.extractive import extract_answers
from rag_pipeline.answering.reading import SentenceEmbed
from rag_pipeline.assistant import sentence_vectors
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.corpus import Corpus
from rag_pipeline.datamodels import (
    ANYBODY,
    Answer,
    Answered,
    Caller,
    Query,
    ScoredChunk,
    SearchResult,
)
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
    """A retriever that searches the newest open release of a corpus.

    The search finds only documents that the `caller` may see, by default the public documents. Each
    found chunk becomes a LangChain document. Its metadata are the metadata of the corpus's document
    and:

    - `document_id`, `title`, `score`
    - `start`, `end`: offsets in the document's text, in code points
    - `place`, if it is known: a `label` and, by format, page, section, sheet, row or slide

    Raise the errors of `Corpus.search`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    corpus: Corpus
    k: int = Field(default=5, ge=1)
    where: str | None = None
    caller: Caller = ANYBODY

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        # LangChain calls this in a thread for `ainvoke`.
        chunks = self.corpus.search(query, self.k, self.where, self.caller)
        places, (_, note) = self.corpus.places(chunks), self.corpus.searched_with_note()
        return [_document(chunk, place, note) for chunk, place in zip(chunks, places, strict=True)]


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics of one query's contexts (see `evaluation.context_quality`)."""

    query: str
    contexts: int
    metrics: dict[str, float | None]


def log_measured(measured: Measured) -> None:
    """Log a measurement at level INFO."""
    log.info("%r: %d contexts, %s", measured.query, measured.contexts, measured.metrics)


class MeasuringRetriever(BaseRetriever):
    """A retriever that scores the documents of another retriever in a separate thread.

    The cosine of the query and a context's nearest sentence sets the context's level. A context
    counts as used if the answer uses it. The answer is an argument of `measure`, or is extracted
    from the contexts. At most `waiting` queries wait. `skipped` counts the queries above this
    limit. `failed` counts the queries that cannot be scored, and the log has their errors. `close`
    and the end of a `with` block wait until all waiting queries are scored.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    retriever: BaseRetriever
    on_measured: Callable[[Measured], Any] = log_measured
    settings: RuleContext = RuleContext()
    embed: SentenceEmbed = sentence_vectors
    waiting: int = Field(default=100, ge=1)
    skipped: int = 0
    failed: int = 0
    _places: BoundedSemaphore = PrivateAttr()
    _worker: ThreadPoolExecutor = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Make the worker, and a place for each waiting query and for the query in work."""
        super().model_post_init(context)
        self._places = BoundedSemaphore(self.waiting + 1)
        self._worker = ThreadPoolExecutor(1, "measuring")

    def measure(self, query: str, documents: Sequence[Document], answer: str | None = None) -> None:
        """Let the worker score a query's contexts, best first, and the answer made from them.

        If `answer` is None, an answer is extracted from the contexts.
        """
        if self._places.acquire(blocking=False):
            self._worker.submit(self._work, query, documents, answer)
        else:
            self.skipped += 1

    def close(self) -> None:
        """Wait until all waiting queries are scored."""
        self._worker.submit(int).result()  # the only worker does this last

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

    def _work(self, query: str, documents: Sequence[Document], answer: str | None) -> None:
        try:
            self.on_measured(self._measured(query, documents, answer))
        except Exception:  # measuring must not end the application
            self.failed += 1
            log.exception("a query's contexts cannot be scored")
        finally:
            self._places.release()

    def _measured(self, query: str, documents: Sequence[Document], answer: str | None) -> Measured:
        chunks = [_chunk(document, rank) for rank, document in enumerate(documents)]
        if answer is not None:
            given = Answer(answer, answered=bool(answer.strip()))
        else:
            found = SearchResult(query=query, chunks=chunks)
            (given,) = extract_answers([found], ExtractiveAnswers(), sentence_vectors)
        answered = Answered(Query("measured", query), chunks, given)
        (judged,) = judge_by_rules([answered], self.settings, self.embed)
        return Measured(query, len(chunks), context_metrics(judged, self.settings))


def _document(chunk: ScoredChunk, place: Place | None, note: str) -> Document:
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
            **({"note": note} if note else {}),
            **({"place": place.record()} if place else {}),
        },
    )


def _chunk(document: Document, rank: int) -> ScoredChunk:
    """Return any retriever's document as a chunk. The rank replaces a missing id or source."""
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
