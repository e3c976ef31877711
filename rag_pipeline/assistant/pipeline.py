"""Find documents and passages of released corpora, and answer questions from them."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rag_pipeline.answering.comparisons import COUNTERPARTS
from rag_pipeline.answering.forms import (
    NEUTRAL_QUERIES,
    contexts_of,
    form_answers,
    most_contexts_of,
)
from rag_pipeline.answering.intent import Intent, detect
from rag_pipeline.answering.written import or_quotes
from rag_pipeline.assistant.corpora import (
    MAX_CHARACTERS,
    Chosen,
    CorporaSearcher,
    PassageScorer,
    calibration_of,
    with_gaps,
    with_releases,
)
from rag_pipeline.assistant.expansion import ExpandedCorpus
from rag_pipeline.assistant.follow_up import complete
from rag_pipeline.assistant.language_model import LanguageModel
from rag_pipeline.assistant.model import ModelWithFallback, Reflection
from rag_pipeline.assistant.released import ReleasedCorpus, SearchedCorpus
from rag_pipeline.assistant.results import (
    AssistedAnswer,
    Detail,
    KeptAnswers,
    Progress,
    cited,
    standing_warnings,
    with_column_names,
)
from rag_pipeline.assistant.wording import in_language_of
from rag_pipeline.client.records import Step
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import Answer, Boost, ScoredChunk, SearchRequest, SearchResult
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.release.opening import FIRST_QUERY
from rag_pipeline.search import deadlines
from rag_pipeline.search.staged import LocalExpansion

_log = logging.getLogger(__name__)
_FIRST_QUERIES = (
    FIRST_QUERY,
    "What is the definition of a term?",
    "How many days of notice, and for which amount, in the first and in the second document?",
    "Compare the documents.",
    "List all documents.",
)
"""Queries of every intent, because each intent loads its own rules."""


@dataclass(eq=False, kw_only=True)
class Assistant(CorporaSearcher):
    """An assistant that answers questions from corpora. Threads may share the object.

    If the confidence of an answer is low, `expansions` search outside the corpora. If the model
    fails, rules answer with a warning. With `needs_model`, a CallsStoppedError or BudgetError of
    the model is raised, and quotes never replace an answer that no passage supports.
    """

    model: LanguageModel | None = None
    needs_model: bool = False
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    """Answers without a model of the assistant. Assistants of other callers share them."""

    def with_backends(
        self,
        corpora: Mapping[str, SearchedCorpus],
        model: LanguageModel | None,
        reranker: PassageScorer | None,
    ) -> "Assistant":
        """Return an assistant with other backends. Corpora of both keep their expansions."""
        own = {
            name: expansion
            for name, expansion in self.expansions.items()
            if name in corpora and corpora[name] is self.corpora.get(name)
        }
        return replace(self, corpora=corpora, model=model, reranker=reranker, expansions=own)

    def warm(self, is_full: Callable[[], bool] = lambda: False) -> None:
        """Open every release and answer by rules, to make the first question fast.

        Call no chat model or reranker. Skip corpora that fail. Stop when `is_full()` is True.
        """
        for corpus in self.corpora.values():
            if is_full():
                return
            try:
                if isinstance(corpus, ReleasedCorpus):
                    corpus.corpus.open()
                for query in (queries := [*_FIRST_QUERIES]):
                    request = SearchRequest(query=query, k=5, rerank=False, tokens=True)
                    found = replace(self.merged_search(request, [corpus]), kind=detect(query).kind)
                    if query == FIRST_QUERY and found.chunks:  # some questions with an answer
                        words = " ".join(found.chunks[0].text.split()[:12])
                        queries += [f"May {words}?", f"How long {words}?"]
                    with_reader = self.reader, calibration_of([corpus]), self.document_reader()
                    list(form_answers([found], ExtractiveAnswers(), *with_reader))
            except RagPipelineError as error:
                _log.warning("%s: the first search failed: %s", corpus.name, error)

    def ask(
        self,
        query: str,
        corpora: Sequence[str] | None = None,
        document_id: str | None = None,
        instructions: str = "",
        rewrite: bool | None = None,
        contexts: int | None = None,
        progress: Progress | None = None,
        where: str | None = None,
        turns: Sequence[str] = (),
    ) -> AssistedAnswer:
        """Answer a question. Raise InputError for an empty one, or an unknown corpus or document.

        `turns` are the earlier questions, oldest first. They complete a question like "and in
        Lyon?". If `rewrite` is True, the model also rewrites questions without turns. The answer is
        made from `contexts` passages. The defaults of `rewrite` and `contexts` are the settings.
        `instructions` guide the model. The trace reports ignored instructions. `where` is a SQL
        filter (see `Corpus.search`). Expansions are searched only without `where` and
        `document_id`.
        """
        chosen = self.chosen(query, corpora, document_id)
        asked = query, document_id, instructions, rewrite, contexts, where, tuple(turns)
        searched = tuple((c.released(), c.caller) for c in chosen if isinstance(c, ReleasedCorpus))
        varies = self.model or self.reranker or self.expansions
        keeps = not varies and len(searched) == len(chosen)
        # An answer may be older than the files in quarantine.
        of_all = document_id is None and where is None
        if keeps and (kept := self.kept.get((asked, searched), progress)):
            return with_gaps(kept, chosen, complete(query, turns), of_all)
        is_whole = True

        def answer() -> AssistedAnswer:
            nonlocal is_whole
            options = document_id, where, instructions, progress, turns
            answering = _Answering(self, chosen, *options)
            made = answering.run(query, rewrite, contexts)
            is_whole = answering.is_whole
            return made

        made, releases = with_releases(chosen, answer)
        made = replace(made, releases=releases)
        if keeps and is_whole and releases == tuple(release for release, _ in searched):
            self.kept.keep((asked, searched), made)
        return with_gaps(made, chosen, complete(query, turns), of_all)


@dataclass(eq=False)
class _Answering:
    """The steps of one question. `Assistant.ask` creates an object per question."""

    assistant: Assistant
    chosen: Chosen
    document_id: str | None
    where: str | None
    instructions: str
    progress: Progress | None
    turns: Sequence[str]

    def __post_init__(self) -> None:
        self.model, self.settings = self.assistant.model, self.assistant.settings
        self._by_model = ModelWithFallback(self.assistant.needs_model)
        self._trace: list[Step] = []
        self._query = ""
        self._intent = Intent("general", "general", ())
        methods = (c.answers() for c in self.chosen if isinstance(c, ReleasedCorpus))
        self._answers, self._make_answers = next(methods, (ExtractiveAnswers(), None))
        self._contexts = self._candidates = 0
        self._boost: Boost | None = None
        self._further: dict[str, ScoredChunk] = {}
        self._document_of = self.assistant.document_reader()
        self.is_whole = True
        """Whether every step succeeded. If False, the answer is not kept."""

    def _expansions(self) -> list[ExpandedCorpus]:
        """Return the chosen corpora's expansions, or [] with a document or filter."""
        if self.document_id is not None or self.where is not None:
            return []
        known = self.assistant.expansions
        return [known[c.name] for c in self.chosen if c.name in known]

    def run(self, question: str, rewrite: bool | None, contexts: int | None) -> AssistedAnswer:
        """Do all steps. `contexts` and `rewrite` override the settings if they are not None."""
        with self._step("intent") as detail:
            self._read_intent(question, rewrite, detail)
        asked = self._query, self._intent.kind, self._answers
        self._contexts = self._candidates = contexts or contexts_of(*asked)
        if contexts is None and self.model is None:
            self._candidates = most_contexts_of(*asked)
        with self._step("search") as detail:
            self._boost = self._boost_with(detail)
            found = self._search(self.chosen)
            documents = found.documents[: self.settings.files]
            detail["documents"] = [d.document_id for d in documents]
            detail["boosted_queries"] = found.boosted
            detail["passages"] = len(found.chunks)
        with self._step("answer") as detail:
            answer, found = self._draft(found, detail)
        if expansions := self._expansions():
            with self._step("expansion") as detail:
                answer, found = self._expand(expansions, answer, found, detail)
        if self.model is not None and answer.answered:
            answer = self._improve(self.model, answer, found)
            if not self.assistant.needs_model:
                answer = or_quotes(answer, lambda: self._quoted(found, ExtractiveAnswers()))
        return self._finish(question, answer, found)

    @contextmanager
    def _step(self, name: str) -> Iterator[Detail]:
        deadlines.check()
        if self.progress is not None:
            done = len(self._trace)
            self.progress(name, done, max(3, done + 1))
        began, started = time.time_ns(), time.perf_counter()
        detail: Detail = {}
        yield detail
        seconds = time.perf_counter() - started
        self._trace.append(Step(name=name, seconds=seconds, detail=detail, began=began))

    def _read_intent(self, question: str, rewrite: bool | None, detail: Detail) -> None:
        model, turns = self.model, self.turns
        query = complete(question, turns)[:MAX_CHARACTERS]
        rewrites = self.settings.rewrite_queries if rewrite is None else rewrite
        if model and (rewrites or turns):
            by_rules = query
            query = self._by_model(
                detail, "rewriting", lambda: model.rewrite(question, turns), lambda: by_rules
            )
        if query != question or (model and rewrites):
            detail |= {"question": question, "rewritten": query}
        intent = detect(query)
        if model:
            intent = self._by_model(detail, "intent", lambda: model.detect(query), lambda: intent)
        detail |= {"kind": intent.kind, "domain": intent.domain, "entities": intent.entities}
        if self.instructions and model is None:
            detail["instructions"] = "ignored: no model is configured"
        self._query, self._intent = query, intent

    def _boost_with(self, detail: Detail) -> Boost | None:
        model = self.model
        if model is None:
            return None
        return lambda document_id, texts: self._by_model(
            detail,
            "keywords",
            lambda: model.keywords(self._query, document_id, texts, self.instructions),
            lambda: LocalExpansion(self._query, texts)(document_id, texts),
            of=document_id,
        )

    def _search(self, chosen: Chosen) -> SearchResult:
        more = {"discover": True, "stages": self.settings.stages, "boost": self._boost}
        request = self._request(self._query, self._candidates, **more)
        return self._to_answer(self.assistant.merged_search(request, chosen))

    def _request(self, query: str, k: int, **more: Any) -> SearchRequest:
        more |= {"document_id": self.document_id, "where": self.where}
        return SearchRequest(query=query, k=k, deepen=False, **more)

    def _to_answer(self, found: SearchResult) -> SearchResult:
        self.is_whole &= found.rerank_error is None and found.boost_error is None
        return replace(found, kind=self._intent.kind, contexts=self._contexts)

    def _draft(self, found: SearchResult, detail: Detail) -> tuple[Answer, SearchResult]:
        """Answer from the passages. If they lack a definition, search for `NEUTRAL_QUERIES`."""
        answer = self._answer(found, detail)
        by_method = self._make_answers is not None
        if answer.answered or by_method or self._intent.kind != "definition":
            return answer, found
        for neutral in NEUTRAL_QUERIES:
            request = self._request(neutral, self._answers.contexts, is_neutral=True)
            more = self.assistant.merged_search(request, self.chosen)
            more = replace(more, query=found.query, search_text=found.search_text)
            again = self._answer(self._to_answer(more), detail)
            detail.setdefault("neutral_queries", []).append(neutral)
            if again.answered:
                return again, replace(found, chunks=[*more.chunks, *found.chunks])
        return answer, found

    def _answer(self, found: SearchResult, detail: Detail) -> Answer:
        """Answer with the release's method, with the assistant's model, or with quotes."""
        model, make, said = self.model, self._make_answers, self._answers
        settings = said if isinstance(said, ExtractiveAnswers) else ExtractiveAnswers()
        use_method = make is not None and not (model and self.instructions)
        if not found.chunks or not (use_method or model):
            return self._quoted(found, settings)

        def ask() -> Answer:
            if make is not None and use_method:
                return make(found)
            assert model is not None
            return model.answer(self._query, self._intent, found.chunks, self.instructions)

        return self._by_model(detail, "answer", ask, lambda: self._quoted(found, settings))

    def _quoted(self, found: SearchResult, settings: ExtractiveAnswers) -> Answer:
        reader, calibration = self.assistant.reader, calibration_of(self.chosen)
        tools = reader, calibration, self._document_of, self._found_for
        (answer,) = form_answers([found], settings, *tools)
        return answer

    def _found_for(self, text: str) -> Sequence[ScoredChunk]:
        request = self._request(text, COUNTERPARTS, is_neutral=True)
        chunks = self.assistant.merged_search(request, self.chosen).chunks
        self._further |= {chunk.chunk_id: chunk for chunk in chunks}
        return chunks

    def _confidence(self, answer: Answer, found: SearchResult) -> float:
        if not answer.answered:
            return 0.0
        if answer.confidence is not None:
            return answer.confidence
        weights = found.token_weights
        plain = SearchResult(query=self._query, chunks=found.chunks, token_weights=weights)
        return self._quoted(plain, ExtractiveAnswers()).confidence or 0.0

    def _expand(
        self,
        expansions: Sequence[ExpandedCorpus],
        answer: Answer,
        found: SearchResult,
        detail: Detail,
    ) -> tuple[Answer, SearchResult]:
        """Answer again with kept and new documents from outside, until the confidence suffices."""
        confidence = detail["confidence"] = self._confidence(answer, found)
        for looks in (False, True):
            lacking = [e for e in expansions if confidence < e.settings.min_confidence]
            try:
                if looks and lacking:
                    detail["looked_in"] = [e.settings.look_in.source for e in lacking]
                    reader = self.assistant.reader
                    kept = [k for e in lacking for k in e.look_outside(self._query, reader)]
                    detail["found"] = [one.document_id for one in kept]
                    lacking = lacking if kept else []
                else:
                    lacking = [e for e in lacking if not e.is_empty()]
                if not lacking:
                    continue
                more = self._search([*self.chosen, *lacking])
                again = self._answer(more, detail)
            except RagPipelineError as error:
                detail["failed"] = str(error)
                continue
            better = self._confidence(again, more)
            if better > confidence:
                confidence, answer, found = better, again, more
                detail["confidence_with_expansion"] = better
        return answer, found

    def _improve(self, model: LanguageModel, answer: Answer, found: SearchResult) -> Answer:
        for _ in range(self.settings.reflections):
            asked = self._query, self._intent, answer, found.chunks, self.instructions
            with self._step("reflection") as detail:
                reflection = self._by_model(
                    detail, "reflection", partial(model.reflect, *asked), lambda: Reflection({})
                )
                detail |= {**reflection.verdicts, "changed": reflection.better is not None}
            if reflection.better is None:
                break
            answer = reflection.better
        return answer

    def _finish(self, question: str, answer: Answer, found: SearchResult) -> AssistedAnswer:
        read = {chunk.chunk_id: chunk for chunk in found.chunks}
        found = replace(found, chunks=[*(read | self._further | read).values()])
        with self._step("citations") as detail:
            answer, sources = cited(answer, found.chunks, self._document_of)
            text = with_column_names(answer, found.chunks, self._document_of)
            quoted = {citation.chunk_id for citation in answer.citations}
            shown = enumerate(found.chunks)
            passages = [p for n, p in shown if n < self._contexts or p.chunk_id in quoted]
            detail["checked"] = len(answer.citations)
            detail["verified"] = sum(c.supports for c in answer.citations)
        self.is_whole &= not self._by_model.warnings
        standing = [
            in_language_of(self._query, told)
            for told in standing_warnings(complete(question, self.turns), found, answer)
        ]
        return AssistedAnswer(
            query=question,
            text=text if answer.answered else in_language_of(self._query, text),
            answered=answer.answered,
            intent=self._intent,
            sources=sources,
            documents=tuple(found.documents[: self.settings.files]),
            passages=tuple(passages),
            confidence=answer.confidence,
            problems=answer.problems,
            doubted=answer.doubted,
            warnings=(*self._by_model.warnings, *standing),
            table=answer.table,
            trace=tuple(self._trace),
        )
