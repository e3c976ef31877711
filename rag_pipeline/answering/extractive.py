"""Answers made of the chunks' own sentences: verbatim, cited, and none where nothing fits."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.answering.facts import kinds_asked, states
from rag_pipeline.answering.sentences import PassageTokens, Reader
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import Answer, Citation, ScoredChunk, Span
from rag_pipeline.search.reranking import Weights
from rag_pipeline.search.tokenization import default_tokenizer

NOTHING_ANSWERS = "Nothing in the retrieved passages answers this."

Floats = npt.NDArray[np.float64]

FEATURES = {
    "late interaction": 2.8,
    "standardised": 0.77,
    "passage": 0.24,
    "backwards": 0.24,
    "length": 0.43,
    "rank": 0.95,
    "score": 2.3,
    "other kind of fact": -1.8,
}
"""What a sentence's score is the weighted sum of (see `sentence_features`), with the weights.

Fitted by `benchmarks.bench_citations` on one half of three data sets.
"""
_READ_ANEW = 8
"""Maximum number of passages per question that are embedded, where no index keeps their tokens."""
_WITHIN = 3.0
"""Further sentences are added while they score this much less than the best at most."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a ranked chunk; `start` is its offset into the document's text."""

    chunk: ScoredChunk
    rank: int
    start: int
    text: str


class Compared(NamedTuple):
    """Sentences with their features, shape (sentences, `FEATURES`), compared with a query.

    `passage` is the best late interaction of a whole chunk.
    """

    sentences: list[Sentence]
    features: Floats
    passage: float


def extract_answers(
    questions: Sequence[tuple[str, Sequence[ScoredChunk]]],
    settings: ExtractiveAnswers,
    reader: Reader,
    weights: Weights | None = None,
) -> list[Answer]:
    """Return an answer per (query, ranked chunks), best chunk first.

    Of the first `contexts` chunks' sentences those that score highest are taken, at most
    `sentences` (see `FEATURES`); they are cited best first, one a line. `weights` are those of
    the index's tokens. `confidence` is 0..1 (see `_confidence`); below the settings' the answer is
    `NOTHING_ANSWERS`, without citations.
    """
    return [_answer(query, chunks, settings, reader, weights) for query, chunks in questions]


def passage_confidence(query: str, chunk: ScoredChunk, reader: Reader) -> float:
    """Return how surely one passage answers a query, 0..1, as `Answer.confidence` is measured."""
    sentences, _, passage = sentence_features(query, [chunk], reader)
    return _confidence(query, sentences, passage) if sentences else 0.0


def _answer(
    query: str,
    chunks: Sequence[ScoredChunk],
    settings: ExtractiveAnswers,
    reader: Reader,
    weights: Weights | None,
) -> Answer:
    sentences, features, passage = sentence_features(
        query, chunks[: settings.contexts], reader, weights
    )
    if not sentences:
        return _nothing(0.0)
    scores = features @ np.array(list(FEATURES.values()))
    order = np.argsort(-scores, kind="stable")[: settings.sentences]
    confidence = _confidence(query, sentences, passage)
    if confidence < settings.confidence:
        return _nothing(confidence)
    chosen = [sentences[i] for i in order if scores[i] >= scores[order[0]] - _WITHIN]
    citations = tuple(
        Citation(
            number,
            sentence.chunk.chunk_id,
            sentence.chunk.document_id,
            sentence.start,
            sentence.start + len(sentence.text),
            sentence.text,
        )
        for number, sentence in enumerate(chosen, 1)
    )
    return Answer("\n".join(c.text for c in citations), True, citations, confidence)


def sentence_features(
    query: str, chunks: Sequence[ScoredChunk], reader: Reader, weights: Weights | None = None
) -> Compared:
    """Return the sentences of ranked chunks with their features.

    - late interaction: the mean, weighted by the tokens' rarity, of the cosine of each token of
      the query to the sentence's nearest (ColBERT's MaxSim, Khattab & Zaharia, SIGIR 2020);
    - standardised: that less its mean over all sentences, by its standard deviation;
    - passage: the same of the whole chunk;
    - backwards: the same from the sentence's tokens to the query's, standardised;
    - length: the logarithm of its characters;
    - rank: one over the rank of its chunk; score: the chunk's score over the best one's;
    - other kind of fact: 1 where a duration, a sum … is asked for and the sentence states none.

    A sentence of overlapping chunks stands once; what has no words is left out.
    """
    read = _read(query, chunks, reader)
    if not read:
        return Compared([], np.empty((0, len(FEATURES))), 0.0)
    question = reader.question(query)
    importance = _importance(question.ids, [tokens for _, _, tokens in read], weights)
    dimension = question.vectors.shape[1]
    offsets = question.vectors.sum(axis=1)
    best_score = max(chunk.score for _, chunk, _ in read)
    kinds = kinds_asked(query)
    seen: set[tuple[str, int, int]] = set()
    sentences: list[Sentence] = []
    rows: list[list[float]] = []
    best = 0.0
    for rank, chunk, tokens in read:
        # q . sign = 2 (q . bit) - sum(q), where a bit is 0 or 1
        cosines = (2 * (tokens.signs @ question.vectors.T) - offsets) / math.sqrt(dimension)
        rarity = _rarity(tokens.ids, weights)
        whole = float(_nearest(cosines) @ importance)
        best = max(best, whole)
        starts = np.array([start for start, _ in tokens.spans], np.int64)
        for start, end in _sentence_spans(chunk.text):
            place = (chunk.document_id, chunk.start + start, chunk.start + end)
            text = chunk.text[start:end]
            if place in seen or not _has_terms(text):
                continue
            seen.add(place)
            own = slice(*np.searchsorted(starts, [start, end]))
            back = cosines[own].max(axis=1, initial=0.0)
            backwards = float(back @ rarity[own] / max(rarity[own].sum(), 1e-9))
            late = float(_nearest(cosines[own]) @ importance)
            relative = chunk.score / best_score if best_score > 0 else 0.0
            other = float(not states(text, kinds))
            sentences.append(Sentence(chunk, rank, place[1], text))
            rows.append(
                [late, late, whole, backwards, math.log(len(text)), 1 / rank, relative, other]
            )
    features = np.array(rows).reshape(-1, len(FEATURES))
    for column in (1, 2, 3):
        features[:, column] -= features[:, column].mean() if len(rows) else 0.0
        features[:, column] /= (features[:, column].std() if len(rows) else 0.0) + 1e-6
    return Compared(sentences, features, best)


def _read(
    query: str, chunks: Sequence[ScoredChunk], reader: Reader
) -> list[tuple[int, ScoredChunk, PassageTokens]]:
    """Return the chunks that are read, each with its rank; of those to embed the best by terms."""
    ranked = [(n, chunk) for n, chunk in enumerate(chunks, 1) if _has_terms(chunk.text)]
    anew = [pair for pair in ranked if not pair[1].token_signs]
    if len(anew) > _READ_ANEW:
        asked = frozenset(default_tokenizer().tokenize(query))
        anew.sort(key=lambda pair: (-len(asked & _terms(pair[1].text)), pair[0]))
        left_out = {rank for rank, _ in anew[_READ_ANEW:]}
        ranked = [pair for pair in ranked if pair[0] not in left_out]
    return [(rank, chunk, reader.passage(chunk)) for rank, chunk in ranked]


def _importance(
    ids: npt.NDArray[np.uint32], read: Sequence[PassageTokens], weights: Weights | None
) -> Floats:
    """Return each query token's share by its rarity: in the index, else in what is read."""
    if weights is None:
        holding = Counter(token for one in read for token in set(one.ids.tolist()))
        counts = np.array([holding[token] for token in ids.tolist()])
        shares = np.log(1 + (len(read) - counts + 0.5) / (counts + 0.5))
    else:
        shares = _rarity(ids, weights).astype(np.float64)
    total = shares.sum()
    return shares / total if total else np.full(len(ids), 1 / len(ids))


def _rarity(ids: npt.NDArray[np.uint32], weights: Weights | None) -> Floats:
    if weights is None:
        return np.ones(len(ids))
    rarity: Floats = weights[np.minimum(ids, len(weights) - 1)].astype(np.float64)
    return rarity


def _nearest(cosines: npt.NDArray[np.float32]) -> Floats:
    """Return each query token's highest cosine, 0 where there are no tokens."""
    if not len(cosines):
        return np.zeros(cosines.shape[1])
    best: Floats = cosines.max(axis=0).astype(np.float64)
    return best


def _confidence(query: str, sentences: Sequence[Sentence], passage: float) -> float:
    """Return 0.8 of the best passage's late interaction + 0.2 of the best sentence's terms.

    The latter is the share of the query's terms that the sentence holds.
    """
    asked = frozenset(default_tokenizer().tokenize(query))
    covered = max(len(asked & _terms(s.text)) / max(len(asked), 1) for s in sentences)
    return float(np.clip(0.8 * passage + 0.2 * covered, 0, 1))


# The same chunks are found for many queries, and under many configurations.
@lru_cache(maxsize=4096)
def _sentence_spans(text: str) -> list[Span]:
    return sentence_spans(text)


@lru_cache(maxsize=16384)
def _terms(text: str) -> frozenset[str]:
    return frozenset(default_tokenizer().tokenize(text))


def _has_terms(text: str) -> bool:
    return bool(_terms(text))


def _nothing(confidence: float) -> Answer:
    return Answer(NOTHING_ANSWERS, answered=False, confidence=confidence)
