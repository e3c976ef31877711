"""Fit a calibration to a configuration.

A calibration estimates the probability that passages answer a query. Each query with gold is
searched twice: in all documents, and outside its gold documents, where no passage can answer.
Unanswerable queries are searched once. If there are too few such queries, questions made from the
documents and general questions replace them.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import NamedTuple

import cachetools
import numpy as np

from rag_pipeline.answering.agreement import ranked_sentences
from rag_pipeline.answering.confidence import (
    FEWEST,
    Evidence,
    fit,
    placed,
    read_result,
    sentence_evidence,
)
from rag_pipeline.answering.forms import contexts_of, distinct, most_contexts_of
from rag_pipeline.answering.intent import detect
from rag_pipeline.answering.reading import Floats, sentence_vectors
from rag_pipeline.calls import CallCounts
from rag_pipeline.calls.progress import advance
from rag_pipeline.config import Configuration, ExtractiveAnswers, Lexical, PassageReranker
from rag_pipeline.config.calibration import DEFAULT, EVIDENCE, Calibration
from rag_pipeline.config.models import LocalEmbedder
from rag_pipeline.datamodels import Document, Query, ScoredChunk, SearchRequest, SearchResult
from rag_pipeline.errors import TextsFailedError, UnknownReplyError
from rag_pipeline.evaluation.general_questions import GENERAL
from rag_pipeline.evaluation.relevance import gold_labels
from rag_pipeline.evaluation.runs import load_search_texts, pinned_of, searched_index, searcher_of
from rag_pipeline.indexing import read_documents
from rag_pipeline.loading.queries import UNANSWERABLE
from rag_pipeline.models.providers.e5 import E5Embedding
from rag_pipeline.questions.generation import make_questions
from rag_pipeline.search.index import Index
from rag_pipeline.search.pinned import Pinned
from rag_pipeline.search.ranking import with_tokens
from rag_pipeline.search.reranking.none import NoReranker
from rag_pipeline.search.retrieval import Searcher, parse_query
from rag_pipeline.search.retrievers import single_pass
from rag_pipeline.store import quoted
from rag_pipeline.workspace import Workspace

_MOST_SEARCHED = 150
"""Maximum number of queries that are searched again."""
_MOST_EMBEDDED = 40
"""The same maximum without token vectors in the index. Passages must then be embedded."""
_MOST_MADE = 50
"""Maximum number of questions that are made from the documents."""
_MOST_DOCUMENTS, _MOST_CHARACTERS = 60, 300_000
"""Maximum numbers of documents and of characters from which questions are made."""


class Examples(NamedTuple):
    """Evidence on queries and their passages. Each search of a query is one row."""

    rows: Floats
    answers: list[bool]
    removed: list[bool]
    """Whether the search left out the gold documents."""
    groups: list[str]
    """The group of each row's query. Queries of one group are not independent."""
    asked: list[str]
    """The `group` of each row's query, which its other wordings share, or the query's id."""


def calibrated(
    workspace: Workspace,
    configuration: Configuration,
    queries: Sequence[Query],
    ranked: Mapping[str, Sequence[ScoredChunk]],
    counts: CallCounts,
) -> Calibration:
    """Fit a calibration to the run, or to questions made by rules if too few queries have gold.

    With fewer queries than 1 / `error`, a fit has no threshold, and its probabilities are nearly
    equal. Such a fit counts only if rules make no questions. Without any fit, return the default
    calibration. Synthetic queries do not count, because they match their passages better than
    people's wordings.
    """
    settings = workspace.config.evaluation.answers
    error = settings.error if isinstance(settings, ExtractiveAnswers) else ExtractiveAnswers().error
    asked = [query for query in queries if not query.synthetic]
    fitted = None
    if _are_enough(asked):
        found = examples(workspace, configuration, asked, ranked, counts)
        fitted = fit(found.rows, found.answers, found.asked, error) if found else None
    if fitted and (fitted.least or not error):
        return fitted
    found_both = examples_without_gold(workspace, configuration, counts)
    return (placed(*found_both) if found_both else None) or fitted or DEFAULT


def count_tried(
    workspace: Workspace, configuration: Configuration, queries: Sequence[Query]
) -> int:
    """Return the highest number of search results that `calibrated` reads."""
    embedding = workspace.config.embeddings[configuration.embedding]
    asked = [query for query in queries if not query.synthetic]
    if _are_enough(asked):
        most = _MOST_SEARCHED if getattr(embedding, "token_vectors", False) else _MOST_EMBEDDED
        return 2 * min(len(asked), most)
    is_local = isinstance(workspace.embedder(configuration.embedding), LocalEmbedder)
    return (_MOST_MADE + len(GENERAL)) * is_local


def _are_enough(asked: Sequence[Query]) -> bool:
    return sum(bool(query.answering_documents) for query in asked) >= FEWEST


def examples_without_gold(
    workspace: Workspace, configuration: Configuration, counts: CallCounts
) -> tuple[Floats, Floats] | None:
    """Return evidence on questions made from the documents, and on general questions.

    Return None if there is no run, or if the questions have no vectors. Also return None for a
    remote embedding model, because a plan has no calls for these questions.
    """
    if not isinstance(workspace.embedder(configuration.embedding), LocalEmbedder):
        return None
    pinned = pinned_of(workspace, configuration.name)
    if pinned is None:  # a dry run has no run
        return None
    made = _made_questions(workspace, pinned.documents_version)
    with_signs = searched_index(workspace, configuration)
    searcher = _searcher(workspace, configuration, pinned, counts)
    parsed = (parse_query(searcher.index, q, searcher.retriever) for q in (*made, *GENERAL))
    try:
        searcher.embed([one.search_text for one in parsed])
    except (UnknownReplyError, TextsFailedError):  # a dry run, or a model that failed
        return None
    rows: list[Floats] = []
    for questions in (made, GENERAL):
        found = searcher.search_all(SearchRequest(query=question) for question in questions)
        read = (_read(workspace, configuration, with_signs, one)[1] for one in found)
        met = [one.row for one in read if one is not None]
        rows.append(np.array(met).reshape(-1, len(EVIDENCE)))
    return rows[0], rows[1]


def _made_questions(workspace: Workspace, version: int | None) -> list[str]:
    """Return questions that rules make from a fixed sample of the documents."""
    ids = sorted(workspace.documents().state(version), key=lambda d: zlib.crc32(d.encode()))
    documents, characters = [], 0
    for document in read_documents(workspace, sorted(ids[:_MOST_DOCUMENTS]), version):
        text = document.text[: _MOST_CHARACTERS - characters]
        characters += len(text)
        documents.append(replace(document, text=text))
        if characters >= _MOST_CHARACTERS:
            break
    return _questions_of(documents, workspace.config.lexical)


@cachetools.cached(
    cachetools.LRUCache(maxsize=4),
    key=lambda *given: sha256(repr(given).encode()).digest(),
    lock=Lock(),
)
def _questions_of(documents: Sequence[Document], lexical: Lexical) -> list[str]:
    """Return questions that rules make. The configurations of a corpus share them."""
    return [row["query"] for row in make_questions(documents, _MOST_MADE, lexical).rows]


def _searcher(
    workspace: Workspace, configuration: Configuration, pinned: Pinned, counts: CallCounts
) -> Searcher:
    """Return the configuration's searcher without a `PassageReranker` and boosted queries."""
    searcher = searcher_of(workspace, configuration, pinned, counts)
    reads_passages = isinstance(searcher.reranker, PassageReranker)
    reranker = NoReranker(method="none") if reads_passages else searcher.reranker
    return replace(searcher, retriever=single_pass(searcher.retriever), reranker=reranker)


def _read(
    workspace: Workspace,
    configuration: Configuration,
    with_signs: Index | None,
    searched: SearchResult,
) -> tuple[Sequence[ScoredChunk], Evidence | None]:
    """Return the passages that an answer reads, and their evidence, or None without passages.

    Sentences are the evidence only if the multilingual model also embeds the queries. Otherwise, a
    machine that only searches may lack this model.
    """
    advance("answers and trials", 1)
    settings = workspace.config.evaluation.answers
    kind = detect(searched.query).kind
    most = most_contexts_of(searched.query, kind, settings)
    found = replace(searched, chunks=distinct(searched.chunks[:most]))
    by_e5 = isinstance(workspace.config.embeddings[configuration.embedding], E5Embedding)
    if by_e5 and with_signs is None:
        return found.chunks, sentence_evidence(found, ranked_sentences(found.query, found.chunks))
    found = with_token_vectors(with_signs, found)
    contexts = contexts_of(searched.query, kind, settings)
    read, known = read_result(found, sentence_vectors, contexts)
    return [one.chunk for one in read], known


def examples(
    workspace: Workspace,
    configuration: Configuration,
    queries: Sequence[Query],
    ranked: Mapping[str, Sequence[ScoredChunk]],
    counts: CallCounts,
    most: int | None = None,
) -> Examples | None:
    """Return evidence on at most `most` queries that have gold or are unanswerable.

    Return None if there is no run, or if a dry run lacks a vector. The search outside the gold
    documents makes no new calls, because it uses no paid reranker and no boosted query.
    """
    pinned = pinned_of(workspace, configuration.name)
    if pinned is None:  # a dry run has no run
        return None
    with_signs = searched_index(workspace, configuration)
    searcher = _searcher(workspace, configuration, pinned, counts)
    most = most or (_MOST_SEARCHED if with_signs else _MOST_EMBEDDED)
    usable = [q for q in queries if q.answering_documents or UNANSWERABLE in q.tags]
    chosen = sorted(usable, key=lambda q: zlib.crc32(q.query_id.encode()))[:most]
    search_texts = load_search_texts(workspace, configuration.name)
    rows: list[Floats] = []
    made = Examples(np.empty((0, len(EVIDENCE))), [], [], [], [])
    for query in chosen:
        text = search_texts.get(query.query_id, "")
        known = SearchResult(query=query.query, search_text=text, chunks=ranked[query.query_id])
        asked = [(known, False)]
        if gold := query.answering_documents:
            where = f"document_id NOT IN ({', '.join(map(quoted, gold))})"
            try:
                request = SearchRequest(
                    query=query.query, where=where, allowed=searcher.index.outside(gold)
                )
                without = replace(searcher.search(request), search_text=known.search_text)
            except UnknownReplyError:  # a dry run, and the query is not embedded yet
                return None
            except TextsFailedError:  # the run reports the failure
                continue
            asked.append((without, True))
        for searched, removed in asked:
            read, met = _read(workspace, configuration, with_signs, searched)
            if met is not None:
                rows.append(met.row)
                made.answers.append(not removed and any(gold_labels(query, read)))
                made.removed.append(removed)
                made.groups.append(query.group or next(iter(gold), query.query_id))
                made.asked.append(query.group or query.query_id)
    return made._replace(rows=np.array(rows).reshape(-1, len(EVIDENCE)))


def with_token_vectors(index: Index | None, found: SearchResult) -> SearchResult:
    """Add token signs to the chunks of a result, as a search of the release does.

    Without an index or without chunks, return the result unchanged.
    """
    if index is None or not found.chunks:
        return found
    chunks = with_tokens(index, found.chunks)
    return replace(found, chunks=chunks, token_weights=index.token_weights)
