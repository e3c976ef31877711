"""Question -> intent -> documents -> passages -> answer with checked citations, stage by stage."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from rag_pipeline.assistant.answering import Formed, Row, form_answer, verified
from rag_pipeline.assistant.datasets import Boost, Dataset, Found, Search, choose
from rag_pipeline.assistant.expansion import ExpandedDataset
from rag_pipeline.assistant.intent import Intent, detect
from rag_pipeline.assistant.model import Model, Reflection, or_rule
from rag_pipeline.config import AssistantSettings
from rag_pipeline.context_aware import Discovered, Expansion
from rag_pipeline.datamodels import Citation, Document, ScoredChunk
from rag_pipeline.errors import InputError, RagPipelineError
from rag_pipeline.fusion import reciprocal_rank_fusion
from rag_pipeline.generation import SentenceEmbed

_NEUTRAL_QUERIES = ("definitions", "glossary")
"""Asked of the documents before giving up: a term may be explained apart from where it is used."""
MAX_QUERY_CHARACTERS = 4_000
_RERANKED = 50
"""So many documents are reranked by their best passages."""

Progress = Callable[[str, int, int], None]
"""Called when a stage begins: its name, how many are done, how many there are."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage did, and how long it took; `began` is in nanoseconds since the epoch."""

    name: str
    seconds: float
    detail: Mapping[str, Any]
    began: int


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A discovered document of a dataset."""

    dataset: str
    document_id: str
    title: str
    score: float


@dataclass(frozen=True, slots=True)
class Source:
    """A cited span; `verified` tells whether the document's text bears it out.

    `origin` says where an expanded document came from; it is None for the corpus's own.
    """

    number: int
    dataset: str
    document_id: str
    start: int
    end: int
    text: str
    verified: bool
    origin: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk of a dataset that the answer was made from."""

    dataset: str
    chunk: ScoredChunk


@dataclass(frozen=True, slots=True)
class Assisted:
    """What the assistant says, and how it came to it."""

    query: str
    text: str
    answered: bool
    intent: Intent
    sources: tuple[Source, ...]
    documents: tuple[FoundDocument, ...]
    passages: tuple[Passage, ...]
    confidence: float | None
    problems: tuple[str, ...] = ()
    table: tuple[Row, ...] = ()
    stages: tuple[Stage, ...] = ()


PassageScorer = Callable[[str, Sequence[str]], Sequence[float]]
"""From a query and passages to a relevance score for each."""


@dataclass(slots=True)
class _Trace:
    """Times the stages and tells who listens."""

    progress: Progress | None
    total: int
    stages: list[Stage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        if self.progress is not None:
            self.progress(name, len(self.stages), max(self.total, len(self.stages) + 1))
        began, started = time.time_ns(), time.perf_counter()
        detail: dict[str, Any] = {}
        yield detail
        self.stages.append(Stage(name, time.perf_counter() - started, detail, began))


class Assistant:
    """Answers questions from datasets; safe to share between threads.

    `expansions` hold, by dataset, what was found outside for it, and look there when the dataset
    alone does not answer well enough.
    """

    def __init__(
        self,
        datasets: Mapping[str, Dataset],
        settings: AssistantSettings,
        embed: SentenceEmbed,
        model: Model | None = None,
        reranker: PassageScorer | None = None,
        expansions: Mapping[str, ExpandedDataset] | None = None,
    ) -> None:
        self.datasets = datasets
        self.expansions = expansions or {}
        self.settings = settings
        self.model = model
        self.reranker = reranker
        self._embed = embed

    def with_backends(
        self,
        datasets: Mapping[str, Dataset],
        model: Model | None,
        reranker: PassageScorer | None,
    ) -> "Assistant":
        """Return an assistant of the same settings with other backends.

        Expansions stay with their own datasets.
        """
        own = {
            name: expansion
            for name, expansion in self.expansions.items()
            if name in datasets and datasets[name] is self.datasets.get(name)
        }
        return Assistant(datasets, self.settings, self._embed, model, reranker, own)

    def discover(
        self,
        query: str,
        datasets: Sequence[str] | None = None,
        top_k: int = 10,
        rerank: bool = False,
    ) -> list[FoundDocument]:
        """Return the documents that a question is about, best first.

        Several datasets' documents are merged by reciprocal rank: their scores don't compare.
        """
        checked(query)
        chosen = choose(self.datasets, datasets)
        found = _each(chosen, lambda d: d.search(Search(query, 200, rerank=rerank)))
        documents = _merged_documents(chosen, found)
        if not rerank or self.reranker is None:
            return documents[:top_k]
        best: dict[tuple[str, str], str] = {}
        for dataset, each in zip(chosen, found, strict=True):
            for chunk in each.chunks:
                best.setdefault((dataset.name, chunk.document_id), chunk.text)
        documents = documents[:_RERANKED]
        scores = self.reranker(query, [best[d.dataset, d.document_id] for d in documents])
        scored = [replace(d, score=s) for d, s in zip(documents, scores, strict=True)]
        return sorted(scored, key=lambda d: -d.score)[:top_k]

    def search(
        self,
        query: str,
        datasets: Sequence[str] | None = None,
        document_id: str | None = None,
        k: int = 10,
    ) -> list[Passage]:
        """Return the passages that answer best, of all datasets or of one document."""
        checked(query)
        passages, _, _ = self._passages(query, self._chosen(datasets, document_id), document_id, k)
        return passages

    def ask(
        self,
        query: str,
        datasets: Sequence[str] | None = None,
        document_id: str | None = None,
        instructions: str = "",
        rewrite: bool | None = None,
        k: int | None = None,
        progress: Progress | None = None,
    ) -> Assisted:
        """Answer a question; raise InputError for an empty one or an unknown dataset or document.

        `instructions` guide a model; without one they are ignored, and the trace says so.
        """
        checked(query)
        model, settings = self.model, self.settings
        chosen = self._chosen(datasets, document_id)
        trace = _Trace(progress, total=3)
        asked = query
        with trace.stage("intent") as detail:
            if model and (settings.rewrite_queries if rewrite is None else rewrite):
                asked = or_rule(detail, "rewriting", lambda: model.rewrite(query), lambda: query)
                detail["rewritten"] = asked
            intent = detect(asked)
            if model:
                intent = or_rule(detail, "intent", lambda: model.detect(asked), lambda: intent)
            detail |= {"kind": intent.kind, "domain": intent.domain, "entities": intent.entities}
            if instructions and model is None:
                detail["instructions"] = "ignored: no model is configured"
        # A list wants everything that was found, in the order of the documents' own scores.
        rerank = intent.kind != "comprehensive"
        wanted = k or settings.passages * (1 if rerank else 3)
        with trace.stage("search") as detail:
            boost = self._boost(asked, instructions, detail)
            passages, documents, boosted = self._passages(
                asked, chosen, document_id, wanted, rerank, boost
            )
            detail |= {
                "documents": [d.document_id for d in documents[: settings.files]],
                "boosted_queries": boosted,
                "passages": len(passages),
                "reranked": rerank,
            }
        with trace.stage("answer") as detail:
            formed = self._answer(asked, intent, passages, instructions, detail)
            if not formed.answer.answered:
                for neutral in _NEUTRAL_QUERIES:
                    more, _, _ = self._passages(
                        neutral, chosen, document_id, settings.passages, own=True
                    )
                    again = self._answer(asked, intent, more, instructions, detail)
                    detail.setdefault("neutral_queries", []).append(neutral)
                    if again.answer.answered:
                        formed, passages = again, [*more, *passages]
                        break
        expansions = [] if document_id is not None else self._expansions_of(chosen)
        if expansions:
            with trace.stage("expansion") as detail:
                formed, passages, documents = self._expand(
                    *(asked, intent, chosen, expansions, wanted, instructions, boost),
                    *(formed, passages, documents, detail),
                )
        for _ in range(settings.reflections if model and formed.answer.answered else 0):
            with trace.stage("reflection") as detail:
                reflection = self._reflect(asked, intent, formed, passages, instructions, detail)
                detail |= {**reflection.verdicts, "changed": reflection.better is not None}
            if reflection.better is None:
                break
            formed = reflection.better
        return self._assisted(query, intent, formed, passages, documents, trace)

    def find_document(
        self, document_id: str, datasets: Sequence[str] | None = None
    ) -> tuple[str, Document]:
        """Return a document and its dataset's name, of the first dataset that has it.

        Raises InputError where none has it.
        """
        dataset, document = self._holder(document_id, datasets)
        return dataset.name, document

    # --- stages ---

    def _chosen(self, datasets: Sequence[str] | None, document_id: str | None) -> list[Dataset]:
        if document_id is None:
            return choose(self.datasets, datasets)
        dataset, _ = self._holder(document_id, datasets)
        return [dataset]

    def _holder(self, document_id: str, datasets: Sequence[str] | None) -> tuple[Dataset, Document]:
        chosen = choose(self.datasets, datasets)
        for dataset in (*chosen, *self._expansions_of(chosen)):
            with suppress(InputError):
                return dataset, dataset.document(document_id)
        names = ", ".join(d.name for d in chosen)
        raise InputError(f"no document {document_id[:200]!r} in: {names}")

    def _expansions_of(self, chosen: Sequence[Dataset]) -> list[ExpandedDataset]:
        return [self.expansions[d.name] for d in chosen if d.name in self.expansions]

    def _boost(self, query: str, instructions: str, detail: dict[str, Any]) -> Boost | None:
        model = self.model
        if model is None:
            return None
        return lambda document_id, texts: or_rule(
            detail,
            f"keywords of {document_id}",
            lambda: model.keywords(query, document_id, texts, instructions),
            lambda: Expansion(query, texts)(document_id, texts),
        )

    def _passages(
        self,
        query: str,
        chosen: Sequence[Dataset],
        document_id: str | None,
        k: int,
        rerank: bool = True,
        boost: Boost | None = None,
        own: bool = False,
    ) -> tuple[list[Passage], list[FoundDocument], dict[str, list[str]]]:
        wanted = Search(
            query,
            k,
            document_id,
            self.settings.boosted_files,
            self.settings.variants,
            rerank,
            own,
        )
        found = _each(chosen, lambda d: d.search(wanted, boost))
        rankings = [
            [(f"{n}\0{position}", chunk.score) for position, chunk in enumerate(each.chunks)]
            for n, each in enumerate(found)
        ]
        order = reciprocal_rank_fusion(rankings)[:k]
        passages = []
        for key, _ in order:
            n, _, position = key.partition("\0")
            passages.append(Passage(chosen[int(n)].name, found[int(n)].chunks[int(position)]))
        boosted = {d: list(q) for each in found for d, q in each.boosted.items()}
        passages = _distinct(passages)
        if rerank and self.reranker is not None and passages:
            scores = self.reranker(query, [p.chunk.text for p in passages])
            ranked = sorted(zip(scores, passages, strict=True), key=lambda pair: -pair[0])
            passages = [replace(p, chunk=replace(p.chunk, score=s)) for s, p in ranked]
        return passages, _merged_documents(chosen, found), boosted

    def _answer(
        self,
        query: str,
        intent: Intent,
        passages: Sequence[Passage],
        instructions: str,
        detail: dict[str, Any],
    ) -> Formed:
        chunks, model = [p.chunk for p in passages], self.model

        def by_rule() -> Formed:
            return form_answer(query, intent.kind, chunks, self._embed)

        if model is None or not chunks:
            return by_rule()
        return or_rule(
            detail, "answer", lambda: model.answer(query, intent, chunks, instructions), by_rule
        )

    def _reflect(
        self,
        query: str,
        intent: Intent,
        formed: Formed,
        passages: Sequence[Passage],
        instructions: str,
        detail: dict[str, Any],
    ) -> Reflection:
        chunks, model = [p.chunk for p in passages], self.model
        assert model is not None
        return or_rule(
            detail,
            "reflection",
            lambda: model.reflect(query, intent, formed, chunks, instructions),
            lambda: Reflection({}),
        )

    def _expand(
        self,
        query: str,
        intent: Intent,
        chosen: Sequence[Dataset],
        expansions: Sequence[ExpandedDataset],
        k: int,
        instructions: str,
        boost: Boost | None,
        formed: Formed,
        passages: list[Passage],
        documents: list[FoundDocument],
        detail: dict[str, Any],
    ) -> tuple[Formed, list[Passage], list[FoundDocument]]:
        """Answer again with what is kept from outside, and if need be with what is found there.

        A better answer takes the place of the one that there is; no failure does.
        """
        confidence = detail["confidence"] = self._confidence(query, formed, passages)
        rerank = intent.kind != "comprehensive"
        for looks in (False, True):
            lacking = [e for e in expansions if confidence < e.settings.min_confidence]
            try:
                if looks and lacking:
                    detail["looked_in"] = [e.source.kind for e in lacking]
                    found = [k for e in lacking for k in e.look_outside(query, self._embed)]
                    detail["found"] = [kept.document_id for kept in found]
                    lacking = lacking if found else []
                else:
                    lacking = [e for e in lacking if not e.is_empty()]
                if not lacking:
                    continue
                more, also, _ = self._passages(query, [*chosen, *lacking], None, k, rerank, boost)
                again = self._answer(query, intent, more, instructions, detail)
            except RagPipelineError as error:
                detail["failed"] = str(error)
                continue
            better = self._confidence(query, again, more)
            if better > confidence:
                confidence, formed, passages, documents = better, again, more, also
                detail["confidence_with_expansion"] = better
        return formed, passages, documents

    def _confidence(self, query: str, formed: Formed, passages: Sequence[Passage]) -> float:
        """Return 0..1: the answer's own, else its passages' best sentence's (`extract_answers`)."""
        if not formed.answer.answered:
            return 0.0
        if formed.answer.confidence is not None:
            return formed.answer.confidence
        by_rules = form_answer(query, "general", [p.chunk for p in passages], self._embed)
        return by_rules.answer.confidence or 0.0

    def _assisted(
        self,
        query: str,
        intent: Intent,
        formed: Formed,
        passages: Sequence[Passage],
        documents: Sequence[FoundDocument],
        trace: _Trace,
    ) -> Assisted:
        of_chunk = {p.chunk.chunk_id: p for p in reversed(passages)}
        with trace.stage("citations") as detail:
            document = cache(self._document)  # most citations are of the same few
            answer = verified(formed.answer, lambda c: _holds(c, of_chunk, document))
            detail |= {
                "checked": len(answer.citations),
                "verified": sum(c.supports for c in answer.citations),
            }
        sources = tuple(
            Source(
                c.number,
                of_chunk[c.chunk_id].dataset,
                c.document_id,
                c.start,
                c.end,
                c.text,
                c.supports,
                _origin(of_chunk[c.chunk_id].chunk),
            )
            for c in answer.citations
            if c.chunk_id in of_chunk
        )
        return Assisted(
            query,
            answer.text,
            answer.answered,
            intent,
            sources,
            tuple(documents[: self.settings.files]),
            tuple(passages),
            answer.confidence,
            answer.problems,
            formed.table,
            tuple(trace.stages),
        )

    def _document(self, dataset: str, document_id: str, expanded: bool) -> Document | None:
        """Return a document; None of a source that shows passages only."""
        held_in = self.expansions if expanded else self.datasets
        try:
            return held_in[dataset].document(document_id)
        except InputError:
            return None


def _holds(
    citation: Citation,
    of_chunk: Mapping[str, Passage],
    document: Callable[[str, str, bool], Document | None],
) -> bool:
    """Tell whether a document has the cited text where the citation says."""
    passage = of_chunk.get(citation.chunk_id)
    if passage is None or passage.chunk.document_id != citation.document_id:
        return False
    held = document(passage.dataset, citation.document_id, _origin(passage.chunk) is not None)
    if held is None:
        return citation.text in passage.chunk.text
    return held.text[citation.start : citation.end] == citation.text


def _origin(chunk: ScoredChunk) -> Mapping[str, Any] | None:
    """Return where an expanded document's chunk comes from; None of a corpus's own.

    A document's own fields are no mappings, so that none can pass for an origin.
    """
    origin = chunk.metadata.get("expanded")
    return origin if isinstance(origin, Mapping) else None


def checked(query: str) -> None:
    """Raise InputError for an empty or overlong query."""
    if not query.strip():
        raise InputError("the query is empty")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the query has {len(query)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )


def _each(chosen: Sequence[Dataset], search: Callable[[Dataset], Found]) -> list[Found]:
    if len(chosen) == 1:
        return [search(chosen[0])]
    with ThreadPoolExecutor(min(len(chosen), 8)) as pool:
        return list(pool.map(search, chosen))


def _merged_documents(chosen: Sequence[Dataset], found: Sequence[Found]) -> list[FoundDocument]:
    known: dict[str, tuple[str, Discovered]] = {}
    rankings = []
    for dataset, each in zip(chosen, found, strict=True):
        keys = [f"{dataset.name}\0{d.document_id}" for d in each.documents]
        known |= {k: (dataset.name, d) for k, d in zip(keys, each.documents, strict=True)}
        rankings.append([(k, d.score) for k, d in zip(keys, each.documents, strict=True)])
    order = reciprocal_rank_fusion(rankings) if len(rankings) > 1 else rankings[0]
    return [
        FoundDocument(known[key][0], known[key][1].document_id, known[key][1].title, score)
        for key, score in order
    ]


def _distinct(passages: Sequence[Passage]) -> list[Passage]:
    """Drop passages that say, in the same document, word for word what a better one says."""
    kept: dict[tuple[str, str, str], Passage] = {}
    for passage in passages:
        words = " ".join(passage.chunk.text.split()).casefold()
        kept.setdefault((passage.dataset, passage.chunk.document_id, words), passage)
    return list(kept.values())
