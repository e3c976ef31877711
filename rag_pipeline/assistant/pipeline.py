"""The assistant: finds documents and passages of released corpora, and answers questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag_pipeline.answering import Reader, passage_chances
from rag_pipeline.assistant.answering import Answering
from rag_pipeline.assistant.corpora import (
    CorporaSearcher,
    PassageScorer,
    SearchedCorpus,
    calibration_of,
    check_question,
    once_per_document,
    widened,
)
from rag_pipeline.assistant.expansion import ExpandedCorpus
from rag_pipeline.assistant.model import Model, ModelWithFallback
from rag_pipeline.assistant.results import AssistedAnswer, Progress, place_in
from rag_pipeline.config import AssistantSettings
from rag_pipeline.datamodels import (
    Document,
    FoundDocument,
    ScoredChunk,
    SearchRequest,
    SearchResult,
)
from rag_pipeline.loading.places import Place


@dataclass(eq=False, kw_only=True)
class Assistant:
    """Answers questions from corpora; safe to share between threads.

    `expansions` hold, by corpus, the documents found outside, and look outside when the corpus
    alone does not answer well enough. If the model fails, rules answer and a warning says so; with
    `needs_model` the model's CallsStoppedError or BudgetError is raised.
    """

    corpora: Mapping[str, SearchedCorpus]
    settings: AssistantSettings
    reader: Reader
    model: Model | None = None
    reranker: PassageScorer | None = None
    expansions: Mapping[str, ExpandedCorpus] = field(default_factory=dict)
    needs_model: bool = False

    def __post_init__(self) -> None:
        self.stages = self.settings.stages
        self.searcher = CorporaSearcher(
            corpora=self.corpora, expansions=self.expansions, reranker=self.reranker
        )

    def with_backends(
        self,
        corpora: Mapping[str, SearchedCorpus],
        model: Model | None,
        reranker: PassageScorer | None,
    ) -> "Assistant":
        """Return an assistant of the same settings with other backends.

        Expansions stay with their own corpora.
        """
        own = {
            name: expansion
            for name, expansion in self.expansions.items()
            if name in corpora and corpora[name] is self.corpora.get(name)
        }
        return Assistant(
            corpora=corpora,
            settings=self.settings,
            reader=self.reader,
            model=model,
            reranker=reranker,
            expansions=own,
        )

    def discover(
        self,
        query: str,
        corpora: Sequence[str] | None = None,
        k: int = 10,
        rerank: bool = False,
        where: str | None = None,
    ) -> list[FoundDocument]:
        """Return the k documents that a question is about, best first.

        `where` is a filter in SQL, see `Corpus.search`. Documents of several corpora are
        merged by reciprocal rank, because their scores are not comparable.
        """
        check_question(query)
        chosen = self.searcher.chosen(corpora, None)
        return self.searcher.discover(query, chosen, k, rerank, where)

    def search(
        self,
        query: str,
        corpora: Sequence[str] | None = None,
        document_id: str | None = None,
        k: int = 10,
        where: str | None = None,
    ) -> list[ScoredChunk]:
        """Return the k best passages, of all corpora or of one document.

        `where` is a filter in SQL, see `Corpus.search`; so is `expand`.
        """
        chosen, found = self._found(query, corpora, document_id, k, where)
        return [passage for _, passage in widened(chosen, found.chunks)]

    def rated(
        self, query: str, corpus: str, k: int = 10, where: str | None = None
    ) -> list[tuple[ScoredChunk, float]]:
        """Return the passages of `search` in one corpus, each with its chance to be the answer.

        An answer's `confidence` is the chance of the passage that is nearest to the question.
        """
        chosen, found = self._found(query, [corpus], None, k, where)
        chances = passage_chances(found, self.reader, calibration_of(chosen))
        return [(passage, chances[n]) for n, passage in widened(chosen, found.chunks)]

    def places(self, passages: Sequence[ScoredChunk]) -> list[Place | None]:
        """Return each passage's place in its document, None if its source keeps no documents."""
        document_of = once_per_document(self.searcher)
        return [place_in(passage, document_of(passage)) for passage in passages]

    def find_document(
        self, document_id: str, corpora: Sequence[str] | None = None
    ) -> tuple[str, Document]:
        """Return the name of the first corpus that has a document, and the document.

        Raises InputError if no corpus has it.
        """
        corpus, document = self.searcher.holder(document_id, corpora)
        return corpus.name, document

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
    ) -> AssistedAnswer:
        """Answer a question; raise InputError for an empty one or an unknown corpus or document.

        `instructions` guide a model; without a model they are ignored, and the trace says so.
        `contexts` is the number of passages that the answer is made from. With `where`, a filter in
        SQL (see `Corpus.search`), the assistant does not look outside.
        """
        check_question(query)
        chosen = self.searcher.chosen(corpora, document_id)
        restricted = document_id is not None or where is not None
        known = {} if restricted else self.expansions
        answering = Answering(
            searcher=self.searcher,
            settings=self.settings,
            stages=self.stages,
            reader=self.reader,
            model=self.model,
            by_model=ModelWithFallback(self.needs_model),
            expansions=[known[c.name] for c in chosen if c.name in known],
            chosen=chosen,
            document_id=document_id,
            where=where,
            instructions=instructions,
            progress=progress,
        )
        return answering.run(query, rewrite, contexts)

    def _found(
        self,
        query: str,
        corpora: Sequence[str] | None,
        document_id: str | None,
        k: int,
        where: str | None,
    ) -> tuple[list[SearchedCorpus], SearchResult]:
        check_question(query)
        chosen = self.searcher.chosen(corpora, document_id)
        request = SearchRequest(
            query=query,
            k=k,
            document_id=document_id,
            where=where,
            discover=True,
            stages=self.stages,
        )
        return chosen, self.searcher.search(request, chosen)
