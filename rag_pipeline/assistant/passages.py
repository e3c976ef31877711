"""A question -> passages and documents of the datasets it is asked of, merged and reranked."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rag_pipeline.answering.forms import wording
from rag_pipeline.assistant.datasets import (
    Boost,
    Dataset,
    DatasetSearch,
    Found,
    ReleasedDataset,
    choose,
)
from rag_pipeline.assistant.expansion import ExpandedDataset
from rag_pipeline.assistant.results import FoundDocument, Passage
from rag_pipeline.config import AssistantSettings
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import InputError
from rag_pipeline.search.fusion import reciprocal_rank_fusion
from rag_pipeline.search.reranking import Weights
from rag_pipeline.search.retrieval import check_query
from rag_pipeline.search.staged import Discovered, documents_of, together

MAX_QUERY_CHARACTERS = 4_000
_DISCOVERED = 200
_RERANKED = 50
"""Maximum number of documents that are reranked by their best passages."""
_CANDIDATES = 50
"""Number of passages that a reranker besides the release's orders, where fewer are wanted."""
_MOST_CANDIDATES = 100
"""Maximum number of them; what follows keeps its order."""

PassageScorer = Callable[[str, Sequence[str]], Sequence[float]]
"""From a query and passages to a relevance score for each."""


@dataclass(frozen=True, slots=True)
class Searched:
    """Passages and documents, best first, the boosted queries by document, and what was asked."""

    passages: list[Passage]
    documents: list[FoundDocument]
    boosted: dict[str, list[str]]
    ask: str
    token_weights: Weights | None = None
    """Those of the first dataset that has some."""


@dataclass(frozen=True, slots=True)
class Searcher:
    """Searches datasets together; safe to share between threads."""

    datasets: Mapping[str, Dataset]
    expansions: Mapping[str, ExpandedDataset]
    settings: AssistantSettings
    reranker: PassageScorer | None

    def chosen(self, datasets: Sequence[str] | None, document_id: str | None) -> list[Dataset]:
        """Return the named datasets, or the one that has a document; raise InputError for none."""
        chosen = choose(self.datasets, datasets)
        if document_id is None:
            return chosen
        try:
            dataset, _ = self.holder(document_id, datasets)
        except InputError:
            elsewhere = [d for d in chosen if not getattr(d, "shows_documents", True)]
            if not elsewhere:
                raise
            return elsewhere
        return [dataset]

    def holder(self, document_id: str, datasets: Sequence[str] | None) -> tuple[Dataset, Document]:
        """Return a document, and the first dataset that has it; raise InputError for none."""
        chosen = choose(self.datasets, datasets)
        for dataset in (*chosen, *self.expansions_of(chosen)):
            with suppress(InputError):
                return dataset, dataset.document(document_id)
        names = ", ".join(d.name for d in chosen)
        raise InputError(f"no document {document_id[:200]!r} in: {names}")

    def held(self, dataset: str, document_id: str, expanded: bool) -> Document | None:
        """Return a document that a passage is of; None where its source shows passages only."""
        held_in = self.expansions if expanded else self.datasets
        with suppress(InputError):
            return held_in[dataset].document(document_id)
        return None

    def expansions_of(self, chosen: Sequence[Dataset]) -> list[ExpandedDataset]:
        """Return what was found outside for some datasets."""
        return [self.expansions[d.name] for d in chosen if d.name in self.expansions]

    def discover(
        self,
        query: str,
        chosen: Sequence[Dataset],
        top_k: int,
        rerank: bool,
        where: str | None = None,
    ) -> list[FoundDocument]:
        """Return the documents that a question is about, best first.

        Several datasets' documents are merged by reciprocal rank: their scores don't compare.
        """
        wanted = DatasetSearch(query, _DISCOVERED, rerank=rerank, where=where)
        found = together(lambda d: d.search(wanted), chosen)
        if rerank:  # discovered by the first pass: the reranker has ordered the chunks alone
            found = [_by_their_chunks(each) for each in found]
        documents = _merged_documents(chosen, found)
        if not rerank or self.reranker is None:
            return documents[:top_k]
        best: dict[tuple[str, str], str] = {}
        for dataset, each in zip(chosen, found, strict=True):
            for chunk in each.chunks:
                best.setdefault((dataset.name, chunk.document_id), chunk.text)
        first = [d for d in documents if (d.dataset, d.document_id) in best][:_RERANKED]
        scores = self.reranker(query, [best[d.dataset, d.document_id] for d in first])
        scored = [replace(d, score=s) for d, s in zip(first, scores, strict=True)]
        lowest = min(scores, default=0.0)
        others = [replace(d, score=lowest) for d in documents if d not in first]
        return [*sorted(scored, key=lambda d: -d.score), *others][:top_k]

    def search(
        self,
        query: str,
        chosen: Sequence[Dataset],
        document_id: str | None,
        k: int,
        rerank: bool = True,
        boost: Boost | None = None,
        own: bool = False,
        deepen: bool = True,
        where: str | None = None,
    ) -> Searched:
        """Return the k best passages of some datasets; for the last three see `Search`."""
        stages = None if own else self.settings.stages
        reranker = self.reranker if rerank else None
        depth = k if reranker is None else max(k, _CANDIDATES)
        wanted = DatasetSearch(query, depth, document_id, stages, rerank, deepen, own, where)
        found = together(lambda d: d.search(wanted, boost), chosen)
        rankings = [
            [(f"{n}\0{position}", chunk.score) for position, chunk in enumerate(each.chunks)]
            for n, each in enumerate(found)
        ]
        passages = []
        for key, _ in reciprocal_rank_fusion(rankings)[:depth]:
            n, _, position = key.partition("\0")
            passages.append(Passage(chosen[int(n)].name, found[int(n)].chunks[int(position)]))
        passages = _distinct(passages)
        if reranker is not None and passages:
            first, others = passages[:_MOST_CANDIDATES], passages[_MOST_CANDIDATES:]
            scores = reranker(query, [p.chunk.text for p in first])
            ranked = sorted(zip(scores, first, strict=True), key=lambda pair: -pair[0])
            ranked += [(min(scores), p) for p in others]
            passages = [replace(p, chunk=replace(p.chunk, score=s)) for s, p in ranked][:k]
        boosted = {d: list(q) for each in found for d, q in each.boosted.items()}
        asks = {each.ask for each in found}
        ask = asks.pop() if len(asks) == 1 else ""
        weights = next((f.token_weights for f in found if f.token_weights is not None), None)
        documents = _merged_documents(chosen, found)
        return Searched(passages, documents, boosted, ask or query, weights)


def checked(query: str) -> None:
    """Raise InputError for an empty or overlong query."""
    check_query(query)
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"the query has {len(query)} characters; at most {MAX_QUERY_CHARACTERS} are read"
        )


def widened(chosen: Sequence[Dataset], passages: Sequence[Passage]) -> list[tuple[int, Passage]]:
    """Return passages as their releases' `expand` makes them, each with its place before."""
    made: dict[int, Passage] = {}
    releases = {d.name: d.corpus for d in chosen if isinstance(d, ReleasedDataset)}
    for name in {passage.dataset for passage in passages}:
        places = [n for n, p in enumerate(passages) if p.dataset == name]
        chunks = [passages[n].chunk for n in places]
        wide = releases[name].widened(chunks) if name in releases else enumerate(chunks)
        made |= {places[n]: replace(passages[places[n]], chunk=chunk) for n, chunk in wide}
    return sorted(made.items())


def _by_their_chunks(found: Found) -> Found:
    """Return the documents in the order of their best chunks, the others behind them."""
    first = documents_of(found.chunks)
    known = {d.document_id for d in first}
    lowest = min((d.score for d in first), default=0.0)
    others = [d for d in found.documents if d.document_id not in known]
    behind = [replace(d, score=min(d.score, lowest)) for d in others]
    return replace(found, documents=[*first, *behind])


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
    """Drop the passages of a dataset that say what a better one says (see `distinct`)."""
    kept: dict[tuple[str, ...], Passage] = {}
    for passage in passages:
        kept.setdefault((passage.dataset, *wording(passage.chunk)), passage)
    return list(kept.values())
