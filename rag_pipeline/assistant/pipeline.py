"""Question -> intent -> documents -> passages -> answer with checked citations, stage by stage."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache

from rag_pipeline.answering import (
    NEUTRAL_QUERIES,
    Formed,
    Reader,
    passage_chances,
    passages_read,
    passages_wanted,
)
from rag_pipeline.answering.intent import Intent, detect
from rag_pipeline.assistant.answerer import (
    Answerer,
    AskedQuestion,
    Drafted,
    answers_of,
    calibration_of,
)
from rag_pipeline.assistant.citations import cited, place_in
from rag_pipeline.assistant.datasets import Boost, Dataset
from rag_pipeline.assistant.expansion import ExpandedDataset
from rag_pipeline.assistant.model import Model, ModelOrRules, Reflection
from rag_pipeline.assistant.passages import PassageScorer, Searched, Searcher, checked, widened
from rag_pipeline.assistant.results import Assisted, Detail, FoundDocument, Passage, Progress, Stage
from rag_pipeline.config import AssistantSettings
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.loading.places import Place
from rag_pipeline.search.staged import LocalExpansion


@dataclass(slots=True)
class _Trace:
    progress: Progress | None
    total: int
    stages: list[Stage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[Detail]:
        if self.progress is not None:
            self.progress(name, len(self.stages), max(self.total, len(self.stages) + 1))
        began, started = time.time_ns(), time.perf_counter()
        detail: Detail = {}
        yield detail
        self.stages.append(Stage(name, time.perf_counter() - started, detail, began))


@dataclass(eq=False)
class Assistant:
    """Answers questions from datasets; safe to share between threads.

    `expansions` hold, by dataset, what was found outside for it, and look there when the dataset
    alone does not answer well enough. Where the model is out, rules answer, and a warning says so;
    with `needs_model` its CallsStoppedError or BudgetError is raised.
    """

    datasets: Mapping[str, Dataset]
    settings: AssistantSettings
    reader: Reader
    model: Model | None = None
    reranker: PassageScorer | None = None
    expansions: Mapping[str, ExpandedDataset] = field(default_factory=dict)
    needs_model: bool = False

    def __post_init__(self) -> None:
        self._answerer = Answerer(self.model, self.reader)
        self._searcher = Searcher(self.datasets, self.expansions, self.settings, self.reranker)

    def with_backends(
        self, datasets: Mapping[str, Dataset], model: Model | None, reranker: PassageScorer | None
    ) -> "Assistant":
        """Return an assistant of the same settings with other backends.

        Expansions stay with their own datasets.
        """
        own = {
            name: expansion
            for name, expansion in self.expansions.items()
            if name in datasets and datasets[name] is self.datasets.get(name)
        }
        return Assistant(datasets, self.settings, self.reader, model, reranker, own)

    def discover(
        self,
        query: str,
        datasets: Sequence[str] | None = None,
        top_k: int = 10,
        rerank: bool = False,
        where: str | None = None,
    ) -> list[FoundDocument]:
        """Return the documents that a question is about, best first.

        `where` is a filter in LanceDB's SQL, see `Corpus.search`.

        Several datasets' documents are merged by reciprocal rank: their scores don't compare.
        """
        checked(query)
        chosen = self._searcher.chosen(datasets, None)
        return self._searcher.discover(query, chosen, top_k, rerank, where)

    def search(
        self,
        query: str,
        datasets: Sequence[str] | None = None,
        document_id: str | None = None,
        k: int = 10,
        where: str | None = None,
    ) -> list[Passage]:
        """Return the passages that answer best, of all datasets or of one document.

        `where` is a filter in LanceDB's SQL, see `Corpus.search`; so is `expand`.
        """
        checked(query)
        chosen = self._searcher.chosen(datasets, document_id)
        found = self._searcher.search(query, chosen, document_id, k, where=where).passages
        return [passage for _, passage in widened(chosen, found)]

    def rated(
        self, query: str, dataset: str, k: int = 10, where: str | None = None
    ) -> list[tuple[Passage, float]]:
        """Return what `search` finds in a dataset, each passage with its chance to be the answer.

        The chances are those of an answer's `confidence`: that is the one of the passage which is
        nearest to the question.
        """
        checked(query)
        chosen = self._searcher.chosen([dataset], None)
        found = self._searcher.search(query, chosen, None, k, where=where)
        chunks = [passage.chunk for passage in found.passages]
        chances = passage_chances(
            query, chunks, self.reader, found.token_weights, calibration_of(chosen)
        )
        return [(passage, chances[n]) for n, passage in widened(chosen, found.passages)]

    def places(self, passages: Sequence[Passage]) -> list[Place | None]:
        """Return where each passage stands in its document, None where its source keeps that."""
        held = cache(self._searcher.held)
        return [place_in(p.chunk, p, held) for p in passages]

    def find_document(
        self, document_id: str, datasets: Sequence[str] | None = None
    ) -> tuple[str, Document]:
        """Return a document and its dataset's name, of the first dataset that has it.

        Raises InputError where none has it.
        """
        dataset, document = self._searcher.holder(document_id, datasets)
        return dataset.name, document

    def ask(
        self,
        query: str,
        datasets: Sequence[str] | None = None,
        document_id: str | None = None,
        instructions: str = "",
        rewrite: bool | None = None,
        k: int | None = None,
        progress: Progress | None = None,
        where: str | None = None,
    ) -> Assisted:
        """Answer a question; raise InputError for an empty one or an unknown dataset or document.

        `instructions` guide a model; without one they are ignored, and the trace says so. With
        `where`, a filter in LanceDB's SQL (see `Corpus.search`), nothing is looked for outside.
        """
        checked(query)
        chosen = self._searcher.chosen(datasets, document_id)
        trace = _Trace(progress, total=3)
        by_model = ModelOrRules(self.needs_model)
        with trace.stage("intent") as detail:
            rewrites = self.settings.rewrite_queries if rewrite is None else rewrite
            asked_as, intent = self._intent(query, rewrites, by_model, detail)
            if instructions and self.model is None:
                detail["instructions"] = "ignored: no model is configured"
        answers, answer = answers_of(chosen)
        first = read = k or passages_wanted(asked_as, intent.kind, answers)
        if k is None and self.model is None:
            read = passages_read(asked_as, intent.kind, answers)
        asked = AskedQuestion(
            *(asked_as, intent, chosen, document_id, where, instructions),
            *(read, first, by_model, answers, answer),
        )
        with trace.stage("search") as detail:
            boost = self._boost(asked, detail)
            found = self._search(asked, chosen, boost)
            detail |= {
                "documents": [d.document_id for d in found.documents[: self.settings.files]],
                "boosted_queries": found.boosted,
                "passages": len(found.passages),
            }
        with trace.stage("answer") as detail:
            draft = self._drafted(asked, found, detail)
        restricted = document_id is not None or where is not None
        expansions = [] if restricted else self._searcher.expansions_of(chosen)
        if expansions:
            with trace.stage("expansion") as detail:
                draft = self._expanded(asked, expansions, boost, draft, detail)
        formed = draft.formed
        for _ in range(self.settings.reflections if self.model and formed.answer.answered else 0):
            with trace.stage("reflection") as detail:
                reflection = self._reflect(asked, formed, draft.found.passages, detail)
                detail |= {**reflection.verdicts, "changed": reflection.better is not None}
            if reflection.better is None:
                break
            formed = reflection.better
        return self._assisted(query, asked, formed, draft, trace)

    # --- stages ---

    def _intent(
        self, query: str, rewrites: bool, by_model: ModelOrRules, detail: Detail
    ) -> tuple[str, Intent]:
        asked, model = query, self.model
        if model and rewrites:
            asked = by_model(detail, "rewriting", lambda: model.rewrite(query), lambda: query)
            detail["rewritten"] = asked
        intent = detect(asked)
        if model:
            intent = by_model(detail, "intent", lambda: model.detect(asked), lambda: intent)
        detail |= {"kind": intent.kind, "domain": intent.domain, "entities": intent.entities}
        return asked, intent

    def _boost(self, asked: AskedQuestion, detail: Detail) -> Boost | None:
        model = self.model
        if model is None:
            return None
        return lambda document_id, texts: asked.by_model(
            detail,
            "keywords",
            lambda: model.keywords(asked.query, document_id, texts, asked.instructions),
            lambda: LocalExpansion(asked.query, texts)(document_id, texts),
            of=document_id,
        )

    def _search(
        self, asked: AskedQuestion, chosen: Sequence[Dataset], boost: Boost | None
    ) -> Searched:
        return self._searcher.search(
            *(asked.query, chosen, asked.document_id, asked.k),
            boost=boost,
            deepen=False,
            where=asked.where,
        )

    def _drafted(self, asked: AskedQuestion, found: Searched, detail: Detail) -> Drafted:
        """Answer from what was found; a definition else from what neutral queries find."""
        draft = Drafted(self._answerer.answer(asked, found, detail), found)
        if draft.formed.answer.answered or asked.answer is not None:
            return draft
        if asked.intent.kind != "definition":
            return draft
        for neutral in NEUTRAL_QUERIES:
            more = self._searcher.search(
                *(neutral, asked.chosen, asked.document_id, asked.answers.contexts),
                own=True,
                deepen=False,
                where=asked.where,
            )
            again = self._answerer.answer(asked, replace(more, ask=found.ask), detail)
            detail.setdefault("neutral_queries", []).append(neutral)
            if again.answer.answered:
                passages = [*more.passages, *found.passages]
                return Drafted(again, replace(found, passages=passages))
        return draft

    def _reflect(
        self, asked: AskedQuestion, formed: Formed, passages: Sequence[Passage], detail: Detail
    ) -> Reflection:
        chunks, model = [p.chunk for p in passages], self.model
        assert model is not None
        return asked.by_model(
            detail,
            "reflection",
            lambda: model.reflect(asked.query, asked.intent, formed, chunks, asked.instructions),
            lambda: Reflection({}),
        )

    def _expanded(
        self,
        asked: AskedQuestion,
        expansions: Sequence[ExpandedDataset],
        boost: Boost | None,
        draft: Drafted,
        detail: Detail,
    ) -> Drafted:
        """Answer again with what is kept from outside, and if need be with what is found there.

        A better answer takes the place of the one that there is; no failure does.
        """
        confidence = detail["confidence"] = self._answerer.confidence(asked, draft)
        for looks in (False, True):
            lacking = [e for e in expansions if confidence < e.settings.min_confidence]
            try:
                if looks and lacking:
                    detail["looked_in"] = [e.source.kind for e in lacking]
                    kept = [k for e in lacking for k in e.look_outside(asked.query, self.reader)]
                    detail["found"] = [one.document_id for one in kept]
                    lacking = lacking if kept else []
                else:
                    lacking = [e for e in lacking if not e.is_empty()]
                if not lacking:
                    continue
                found = self._search(asked, [*asked.chosen, *lacking], boost)
                formed = self._answerer.answer(asked, found, detail)
            except RagPipelineError as error:
                detail["failed"] = str(error)
                continue
            again = Drafted(formed, found)
            better = self._answerer.confidence(asked, again)
            if better > confidence:
                confidence, draft = better, again
                detail["confidence_with_expansion"] = better
        return draft

    def _assisted(
        self, query: str, asked: AskedQuestion, formed: Formed, draft: Drafted, trace: _Trace
    ) -> Assisted:
        with trace.stage("citations") as detail:
            held = cache(self._searcher.held)  # most citations are of the same few documents
            answer, sources = cited(formed.answer, draft.found.passages, held)
            quoted = {citation.chunk_id for citation in answer.citations}
            passages = [
                passage
                for number, passage in enumerate(draft.found.passages)
                if number < asked.first or passage.chunk.chunk_id in quoted
            ]
            detail |= {
                "checked": len(answer.citations),
                "verified": sum(c.supports for c in answer.citations),
            }
        return Assisted(
            query,
            answer.text,
            answer.answered,
            asked.intent,
            sources,
            tuple(draft.found.documents[: self.settings.files]),
            tuple(passages),
            answer.confidence,
            answer.problems,
            asked.by_model.warnings,
            formed.table,
            tuple(trace.stages),
        )
