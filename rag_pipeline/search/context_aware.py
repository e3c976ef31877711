"""Retrieve in stages: discover documents, search the leading ones with boosted queries, merge.

What a single pass finds says which documents matter; their best chunks lend the words that the
question lacks.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, starmap
from typing import Any, TypeVar

import numpy as np

from rag_pipeline.config import (
    ContextAwareRetriever,
    HybridRetriever,
    MaxSimReranker,
    Reranker,
    Retriever,
    SinglePass,
)
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search.fusion import weighted_fusion
from rag_pipeline.search.query_analysis import whole
from rag_pipeline.search.retrieval import (
    EncodedQuestion,
    Index,
    Ranking,
    load_chunks,
    rank,
    read_question,
    rerank,
    retrieve,
)
from rag_pipeline.search.tokenization import default_tokenizer
from rag_pipeline.store import id_filter

_DEPTH = 200
"""So many chunks of the single pass are looked at for the documents they belong to."""
_FEEDBACK_CHUNKS = 3
"""A document's best chunks that lend it words."""
_FEEDBACK_TERMS = 4
_AT_ONCE = 8
_WORD = re.compile(r"[^\W\d_][\w'’-]{2,}")

T = TypeVar("T")
R = TypeVar("R")
Embed = Callable[[Sequence[str]], Embedded]
"""From queries to their vectors and tokens."""
Boost = Callable[[str, Sequence[str]], Sequence[str]]
"""From a document's id and its best chunks' texts to boosted queries for it, the best first."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """A document that the single pass found, with the score of its best chunk (MaxP).

    Dai & Callan, Deeper Text Understanding for IR, SIGIR 2019.
    """

    document_id: str
    title: str
    score: float


@dataclass(frozen=True, slots=True)
class Staged:
    """What the stages found: ranked chunks, ranked documents, the boosted queries by document."""

    chunks: list[ScoredChunk]
    documents: list[Discovered]
    boosted: dict[str, list[str]]


def find(
    index: Index,
    query: str,
    settings: Retriever,
    reranker: Reranker,
    embed: Embed,
    where: str | None = None,
) -> list[ScoredChunk]:
    """Return the `top_n` (else `top_k`) best chunks for a query by whatever the settings say.

    `where` is a filter in LanceDB's SQL over the index's columns.
    """
    if isinstance(settings, ContextAwareRetriever):
        return retrieve_in_stages(index, query, settings, reranker, embed, where).chunks
    question = read_question(index, query, settings)
    made = embed([question.ask])
    encoded = EncodedQuestion(made.vectors[0], made.tokens[0])
    return retrieve(index, question, encoded, settings, reranker, where)


def questions(index: Index, queries: Sequence[str], settings: Retriever) -> list[str]:
    """Return what `find` will embed of some queries first."""
    over = settings.over if isinstance(settings, ContextAwareRetriever) else settings
    return [read_question(index, query, over).ask for query in queries]


def remembering(embed: Embed) -> Embed:
    """Return the same function with a memory, so that no text is asked for twice."""
    known: dict[str, tuple[Any, bytes]] = {}

    def remembered(texts: Sequence[str]) -> Embedded:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            made = embed(new)
            known.update(zip(new, zip(made.vectors, made.tokens, strict=True), strict=True))
        return Embedded(np.array([known[t][0] for t in texts]), [known[t][1] for t in texts])

    return remembered


def retrieve_in_stages(
    index: Index,
    query: str,
    settings: ContextAwareRetriever,
    reranker: Reranker,
    embed: Embed,
    where: str | None = None,
    boost: Boost | None = None,
) -> Staged:
    """Return the chunks that a single pass and the boosted searches of leading documents find.

    A chunk scores what the single pass gives it, plus `boost_weight` times its score (0..1) for a
    boosted query, averaged over its document's queries. `boost` makes these queries; without one
    they are the query with the words that set the document's best chunks apart.
    """
    ranking, encoded = _single_pass(index, query, settings.over, embed, where)
    chunks = load_chunks(index, ranking)
    documents = _documents_of(chunks)
    leading = documents[: settings.boosted_files]
    best = {
        d.document_id: [c.text for c in chunks if c.document_id == d.document_id][:_FEEDBACK_CHUNKS]
        for d in leading
    }
    if boost is None:
        made = list(starmap(Expansion(query, [c.text for c in chunks]), best.items()))
    else:
        made = together(lambda item: list(boost(*item)), list(best.items()))
    boosted = {
        document_id: list(islice(queries, settings.variants))
        for document_id, queries in zip(best, made, strict=True)
    }
    known = {position: chunk for (position, _), chunk in zip(ranking, chunks, strict=True)}
    ranking = _boosted_ranking(index, ranking, chunks, boosted, settings, embed, where)
    if isinstance(reranker, MaxSimReranker):
        ranking = rerank(index, ranking, encoded, reranker)
    top = ranking[: settings.top_n or settings.top_k]
    new = [scored for scored in top if scored[0] not in known]
    known |= {
        position: chunk for (position, _), chunk in zip(new, load_chunks(index, new), strict=True)
    }
    return Staged([replace(known[p], score=score) for p, score in top], documents, boosted)


class Expansion:
    """Local query expansion: a query with the words that set some chunks apart from all found.

    A word counts by how often it stands in a document's best chunks, times its inverse frequency
    among all chunks found: pseudo-relevance feedback (Rocchio 1971) without an index of its own.
    """

    def __init__(self, query: str, found: Sequence[str]) -> None:
        self._query = query
        self._known = frozenset(default_tokenizer().tokenize(query))
        terms = [_terms_of(text) for text in found]
        self._found = len(terms)
        self._holding = Counter(term for held in terms for term in held)

    def __call__(self, document_id: str, texts: Sequence[str]) -> list[str]:
        """Return one boosted query, or none where the chunks bring no new words."""
        spelt: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for term, word in (pair for text in texts for pair in _spelt_terms_of(text)):
            if term not in self._known:
                spelt.setdefault(term, word)
                counts[term] += 1
        weights = {
            term: math.log1p(count) * math.log(1 + self._found / self._holding[term])
            for term, count in counts.items()
            if self._holding[term]
        }
        chosen = sorted(weights, key=lambda term: (-weights[term], term))[:_FEEDBACK_TERMS]
        return [" ".join([self._query, *(spelt[t] for t in chosen)])] if chosen else []


@lru_cache(maxsize=4096)
def _terms_of(text: str) -> frozenset[str]:
    # Hundreds of chunks are found for every query, mostly the same ones.
    return frozenset(default_tokenizer().tokenize(text))


@lru_cache(maxsize=4096)
def _spelt_terms_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return the first term of each word, with the word."""
    terms = ((default_tokenizer().tokenize(word), word) for word in _WORD.findall(text))
    return tuple((of_word[0], word) for of_word, word in terms if of_word)


def together(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Do work that waits for something else on all items at once, each in the caller's context."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _AT_ONCE)) as pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        return [one.result() for one in waiting]


def _single_pass(
    index: Index, query: str, settings: SinglePass, embed: Embed, where: str | None
) -> tuple[Ranking, EncodedQuestion]:
    question = read_question(index, query, settings)
    made = embed([question.ask])
    encoded = EncodedQuestion(made.vectors[0], made.tokens[0])
    deep = settings.model_copy(update={"top_k": max(_DEPTH, settings.top_k), "top_n": None})
    return rank(index, question, encoded.vector, deep, where), encoded


def _documents_of(chunks: Sequence[ScoredChunk]) -> list[Discovered]:
    best: dict[str, Discovered] = {}
    for chunk in chunks:  # best first
        best.setdefault(chunk.document_id, Discovered(chunk.document_id, chunk.title, chunk.score))
    return list(best.values())


def _boosted_ranking(
    index: Index,
    ranking: Ranking,
    chunks: Sequence[ScoredChunk],
    boosted: dict[str, list[str]],
    settings: ContextAwareRetriever,
    embed: Embed,
    where: str | None,
) -> Ranking:
    """Add to each chunk's score what the boosted searches of its document give it."""
    queries = [query for made in boosted.values() for query in made]
    if not queries:
        return ranking
    scores = dict(ranking)
    # A chunk that only a boosted search finds starts as the worst known one of its document.
    worst = {c.document_id: c.score for c in chunks}
    vectors = dict(zip(queries, embed(queries).vectors, strict=True))
    changes: dict[str, object] = {"top_k": _DEPTH, "top_n": None}
    if isinstance(settings.over, HybridRetriever):
        changes |= {"document_weight": 0.0, "split_query": False}
    plain = settings.over.model_copy(update=changes)

    kept = index.matching(where) if where else None

    def search(wanted: tuple[str, str]) -> Ranking:
        document_id, query = wanted
        only, allowed = id_filter("document_id", [document_id]), index.of_document(document_id)
        both = f"({where}) AND {only}" if where else only
        if kept is not None:
            allowed &= kept
        found = rank(index, whole(query), vectors[query], plain, both, allowed)
        return weighted_fusion([found], [settings.boost_weight / len(boosted[document_id])])

    searches = [(document_id, query) for document_id, made in boosted.items() for query in made]
    # What is in memory is searched faster than threads start.
    all_found = together(search, searches) if index.vectors is None else map(search, searches)
    for (document_id, _), found in zip(searches, all_found, strict=True):
        for position, score in found:
            scores[position] = scores.get(position, worst[document_id]) + score
    positions = np.array(list(scores), np.int64)
    order = np.lexsort((positions, -np.array(list(scores.values()))))
    return [(int(positions[i]), scores[int(positions[i])]) for i in order]
