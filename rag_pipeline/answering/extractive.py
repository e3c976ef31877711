"""Answers made of the chunks' own sentences: verbatim, cited, and none where nothing fits."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import Answer, Citation, ScoredChunk
from rag_pipeline.models.providers import Vectors
from rag_pipeline.search.tokenization import default_tokenizer

NOTHING_ANSWERS = "Nothing in the retrieved passages answers this."

SentenceEmbed = Callable[[Sequence[str]], Vectors]
"""From texts to unit vectors, shape (texts, dimension)."""

_CANDIDATES = 16
"""Sentences of a query that are compared by vectors: the best by terms and rank."""
_COSINE_WEIGHT = 0.5
_TERM_WEIGHT = 0.3
_RANK_WEIGHT = 0.1
_LENGTH_WEIGHT = 0.1
_LONG = 200
"""Characters from which a sentence is no longer preferred for its length: headings say little."""
_CLOSE_TO_BEST = 0.6
"""Further sentences are added while they score this share of the best one."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    chunk: ScoredChunk
    rank: int
    start: int
    """Offset into the document's text."""
    text: str
    terms: frozenset[str]


def extract_answers(
    questions: Sequence[tuple[str, Sequence[ScoredChunk]]],
    settings: ExtractiveAnswers,
    embed: SentenceEmbed,
) -> list[Answer]:
    """Return an answer per (query, ranked chunks), best chunk first.

    Of the first `contexts` chunks' sentences those are taken that score highest by

        0.5 cosine(query, sentence) + 0.3 terms + 0.1 / rank of the chunk + 0.1 length

    where `length` is characters / 200, at most 1, and `terms` the share of the query's terms that
    the sentence holds, each weighted by its inverse frequency among the sentences. The text is the
    sentences as they stand, in the order of the chunks, one a line. `confidence` is the best
    sentence's 0.6 cosine + 0.4 terms, at least 0; below the settings' the answer is
    `NOTHING_ANSWERS`, without citations.
    """
    tokenizer = default_tokenizer()
    asked = [frozenset(tokenizer.tokenize(query)) for query, _ in questions]
    candidates = [
        _candidates(terms, chunks[: settings.contexts])
        for terms, (_, chunks) in zip(asked, questions, strict=True)
    ]
    texts = list(
        dict.fromkeys(
            text
            for (query, _), found in zip(questions, candidates, strict=True)
            if found
            for text in (query, *(sentence.text for sentence, _ in found))
        )
    )
    if not texts:
        return [_nothing(0.0) for _ in questions]
    vectors = embed(texts)
    row = {text: index for index, text in enumerate(texts)}
    answers = []
    for (query, _), found in zip(questions, candidates, strict=True):
        scored = [
            (sentence, float(vectors[row[query]] @ vectors[row[sentence.text]]), terms)
            for sentence, terms in found
        ]
        answers.append(_answer(scored, settings))
    return answers


def _candidates(
    asked: frozenset[str], chunks: Sequence[ScoredChunk]
) -> list[tuple[_Sentence, float]]:
    """Return the sentences to compare, each with its weighted share of the query's terms."""
    sentences = _sentences(chunks)
    holding = Counter(term for s in sentences for term in s.terms & asked)
    weight = {
        term: math.log(1 + (len(sentences) - holding[term] + 0.5) / (holding[term] + 0.5))
        for term in asked
    }
    total = sum(weight.values()) or 1.0
    shares = [(s, sum(weight[term] for term in s.terms & asked) / total) for s in sentences]
    shares.sort(key=lambda pair: -(pair[1] + _RANK_WEIGHT / pair[0].rank))
    return shares[:_CANDIDATES]


def _sentences(chunks: Sequence[ScoredChunk]) -> list[_Sentence]:
    """Return the sentences of the chunks, best chunk first; overlapping chunks' once."""
    seen: set[tuple[str, int, int]] = set()
    sentences = []
    for rank, chunk in enumerate(chunks, 1):
        for start, end, terms in _spans_with_terms(chunk.text):
            place = (chunk.document_id, chunk.start + start, chunk.start + end)
            if terms and place not in seen:
                seen.add(place)
                text = chunk.text[start:end]
                sentences.append(_Sentence(chunk, rank, place[1], text, terms))
    return sentences


# The same chunks are found for many queries, and under many configurations.
@lru_cache(maxsize=4096)
def _spans_with_terms(text: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """Return where the sentences of a text start and end, each with its terms."""
    tokenizer = default_tokenizer()
    return tuple(
        (start, end, frozenset(tokenizer.tokenize(text[start:end])))
        for start, end in sentence_spans(text)
    )


def _answer(
    scored: Sequence[tuple[_Sentence, float, float]], settings: ExtractiveAnswers
) -> Answer:
    if not scored:
        return _nothing(0.0)
    ranked = sorted(
        (
            (
                _COSINE_WEIGHT * cosine
                + _TERM_WEIGHT * terms
                + _RANK_WEIGHT / sentence.rank
                + _LENGTH_WEIGHT * min(len(sentence.text) / _LONG, 1.0),
                sentence,
                max(0.6 * cosine + 0.4 * terms, 0.0),
            )
            for sentence, cosine, terms in scored
        ),
        key=lambda item: -item[0],
    )
    best, _, confidence = ranked[0]
    if confidence < settings.confidence:
        return _nothing(confidence)
    close = [s for score, s, _ in ranked if score >= _CLOSE_TO_BEST * best]
    chosen = sorted(close[: settings.sentences], key=lambda s: (s.rank, s.start))
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
    return Answer("\n".join(c.text for c in citations), True, citations, min(confidence, 1.0))


def _nothing(confidence: float) -> Answer:
    return Answer(NOTHING_ANSWERS, answered=False, confidence=confidence)
