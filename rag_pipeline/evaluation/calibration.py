"""Fit a calibration, which estimates the probability that passages answer, to a run with gold.

Each query counts twice: with the passages of the run, and with passages of all documents but its
gold documents, which cannot answer. Unanswerable queries count, too.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rag_pipeline.answering import (
    DEFAULT,
    Calibration,
    contexts_of,
    detect,
    distinct,
    most_contexts_of,
    sentence_vectors,
)
from rag_pipeline.answering.confidence import EVIDENCE, FEWEST, fit, read_result
from rag_pipeline.answering.reading import Floats
from rag_pipeline.calls import CallCounts
from rag_pipeline.config import Configuration, ExtractiveAnswers, PassageReranker
from rag_pipeline.datamodels import Query, ScoredChunk, SearchRequest, SearchResult
from rag_pipeline.errors import TextsFailedError, UnknownReplyError
from rag_pipeline.evaluation.relevance import gold_labels
from rag_pipeline.evaluation.results import RUN
from rag_pipeline.evaluation.runs import load_search_texts, searched_index
from rag_pipeline.search.index import Index
from rag_pipeline.search.pinned import Pinned, open_index
from rag_pipeline.search.ranking import with_tokens
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrieval import Searcher, cached
from rag_pipeline.search.retrievers import single_pass
from rag_pipeline.store import quoted
from rag_pipeline.workspace import Workspace

_UNANSWERABLE = "unanswerable"
"""The tag of queries without an answer, as `rag questions --unanswerable` writes it."""
_MOST_SEARCHED = 150
"""Maximum number of queries that are searched again."""
_MOST_EMBEDDED = 40
"""The same maximum without token vectors in the index, because the passages are then embedded."""


class Examples(NamedTuple):
    """Evidence of queries and their passages, one row each."""

    rows: Floats
    answers: list[bool]
    removed: list[bool]
    """Whether the search left out the gold documents."""
    groups: list[str]
    """The group of each row's query. Queries of one group are not independent."""
    asked: list[str]
    """One value per query, or per group of wordings of the same query."""


def calibrated(
    workspace: Workspace,
    configuration: Configuration,
    queries: Sequence[Query],
    ranked: Mapping[str, Sequence[ScoredChunk]],
    counts: CallCounts,
) -> Calibration:
    """Fit a calibration to a run. Return the default if too few queries have gold."""
    settings = workspace.config.evaluation.answers
    error = settings.error if isinstance(settings, ExtractiveAnswers) else ExtractiveAnswers().error
    found = None
    if sum(bool(query.answering_documents) for query in queries) >= FEWEST:
        found = examples(workspace, configuration, queries, ranked, counts)
    fitted = fit(found.rows, found.answers, found.asked, error) if found else None
    return fitted or DEFAULT


def examples(
    workspace: Workspace,
    configuration: Configuration,
    queries: Sequence[Query],
    ranked: Mapping[str, Sequence[ScoredChunk]],
    counts: CallCounts,
    most: int | None = None,
) -> Examples | None:
    """Return evidence of at most `most` queries with gold, or None without a run.

    The search without gold documents uses no paid reranker and no boosted query. It makes no other
    calls than the run.
    """
    config = workspace.config
    pinned = RUN.note(workspace, configuration.name).get("pinned")
    if pinned is None:  # a dry run has no run
        return None
    with_signs = searched_index(workspace, configuration)
    index = with_signs or open_index(workspace, Pinned(**pinned))
    most = most or (_MOST_SEARCHED if with_signs else _MOST_EMBEDDED)
    usable = [q for q in queries if q.answering_documents or _UNANSWERABLE in q.tags]
    chosen = sorted(usable, key=lambda q: zlib.crc32(q.query_id.encode()))[:most]
    reranker = config.rerankers[configuration.reranker]
    if isinstance(reranker, PassageReranker):
        reranker = NoReranker(method="none")
    searcher = Searcher(
        index=index,
        retriever=single_pass(config.retrievers[configuration.retriever]),
        reranker=reranker,
        embed=cached(workspace.embed(configuration.embedding, counts, "query")),
    )
    search_texts = load_search_texts(workspace, configuration.name)
    settings = config.evaluation.answers
    rows: list[Floats] = []
    made = Examples(np.empty((0, len(EVIDENCE))), [], [], [], [])
    for query in chosen:
        text = search_texts.get(query.query_id, "")
        known = SearchResult(query=query.query, search_text=text, chunks=ranked[query.query_id])
        asked = [(known, False)]
        if gold := query.answering_documents:
            where = f"document_id NOT IN ({', '.join(map(quoted, gold))})"
            try:
                request = SearchRequest(query=query.query, where=where, allowed=index.outside(gold))
                without = replace(searcher.search(request), search_text=known.search_text)
            except UnknownReplyError:  # a dry run, and the query is not embedded yet
                return None
            except TextsFailedError:  # the run reports it too
                continue
            asked.append((without, True))
        kind = detect(query.query).kind
        contexts = contexts_of(query.query, kind, settings)
        most_contexts = most_contexts_of(query.query, kind, settings)
        for searched, removed in asked:
            found = replace(searched, chunks=distinct(searched.chunks[:most_contexts]))
            found = with_token_vectors(with_signs, found)
            read, met = read_result(found, sentence_vectors, contexts)
            if met is not None:
                rows.append(met.row)
                read_chunks = [one.chunk for one in read]
                made.answers.append(not removed and any(gold_labels(query, read_chunks)))
                made.removed.append(removed)
                made.groups.append(query.group or next(iter(gold), query.query_id))
                made.asked.append(query.group or query.query_id)
    return made._replace(rows=np.array(rows).reshape(-1, len(EVIDENCE)))


def with_token_vectors(index: Index | None, found: SearchResult) -> SearchResult:
    """Return a result whose chunks have token signs, as in a search of the release."""
    if index is None or not found.chunks:
        return found
    chunks = with_tokens(index, found.chunks)
    return replace(found, chunks=chunks, token_weights=index.token_weights)
