"""Learn the weights of a `learned` retriever from the queries of a corpus.

The weights that measure a query are learned from the queries of other groups (`load_groups`). A
release serves the weights learned from all queries.
"""

from collections.abc import Sequence

from rag_pipeline.config import Retriever
from rag_pipeline.datamodels import Query
from rag_pipeline.evaluation.relevance import relevant_chunks
from rag_pipeline.search.learning import FOLDS, Example, example_of, folds_of, learn
from rag_pipeline.search.ranking import Search
from rag_pipeline.search.retrieval import Searcher, parse_query
from rag_pipeline.search.retrievers import single_pass
from rag_pipeline.search.retrievers.learned import LearnedRetriever, PartWeights
from rag_pipeline.search.staged import ContextAwareRetriever


def with_weights(settings: Retriever, weights: PartWeights | None) -> Retriever:
    """Return retriever settings with these weights, or unchanged settings if `weights` is None.

    In a `context_aware` retriever, the retriever `over` gets the weights.
    """
    if weights is None:
        return settings
    if isinstance(settings, ContextAwareRetriever):
        over = settings.over.model_copy(update=weights)
        return settings.model_copy(update={"over": over})
    return settings.model_copy(update=weights)


def cross_fitted(
    searcher: Searcher, queries: Sequence[Query], groups: dict[str, str]
) -> tuple[list[tuple[Sequence[Query], Retriever]], PartWeights | None]:
    """Return the queries of each fold with retriever settings, and the weights to serve.

    The settings of a fold have weights learned from the other folds. The weights to serve are
    learned from all queries. If the retriever is not `learned`, or if too few queries have gold,
    return the unchanged settings and no weights.
    """
    settings = searcher.retriever
    over = single_pass(settings)
    known = [q for q in queries if q.gold_spans]
    if not isinstance(over, LearnedRetriever) or len(known) < over.minimum_queries:
        return [(queries, settings)], None
    folds = folds_of([groups[q.query_id] for q in queries])
    examples = _examples(searcher, queries, over)

    def learned_without(fold: int | None) -> PartWeights:
        kept = [
            (example, own)
            for example, own in zip(examples, folds, strict=True)
            if example is not None and own != fold
        ]
        return learn([e for e, _ in kept], [own for _, own in kept], over)

    asked: list[tuple[Sequence[Query], Retriever]] = []
    for fold in range(FOLDS):
        mine = [q for q, own in zip(queries, folds, strict=True) if own == fold]
        if mine:
            asked.append((mine, with_weights(settings, learned_without(fold))))
    return asked, learned_without(None)


def _examples(
    searcher: Searcher, queries: Sequence[Query], settings: LearnedRetriever
) -> list[Example | None]:
    index = searcher.index
    columns = ["chunk_id", "document_id", "start", "end"]
    answering = relevant_chunks(queries, index.table.to_batches(columns))
    parsed = [parse_query(index, query.query, settings) for query in queries]
    made = searcher.embed([query.search_text for query in parsed])
    searches = [
        Search(index=index, query=query, vector=vector, tokens=tokens)
        for query, vector, tokens in zip(parsed, made.vectors, made.tokens, strict=True)
    ]
    return [
        example_of(search, settings, searcher.reranker, index.at(sorted(answering[query.query_id])))
        for query, search in zip(queries, searches, strict=True)
    ]
