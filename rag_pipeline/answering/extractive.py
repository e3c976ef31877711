"""Answers made of the chunks' own sentences: verbatim, cited, and none where nothing fits."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rag_pipeline.answering.confidence import DEFAULT, Calibration, read_asked
from rag_pipeline.answering.facts import kinds_asked, states
from rag_pipeline.answering.interaction import Floats, cosines, importance, nearest, rarity
from rag_pipeline.answering.sentences import Reader, ReadPassage, has_terms, token_ids
from rag_pipeline.chunking.sentences import LIST_ITEM, sentence_spans
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import Answer, Citation, ScoredChunk, Span, ToAnswer
from rag_pipeline.search.reranking import Weights

NOTHING_ANSWERS = "Nothing in the retrieved passages answers this."

FEATURES = {
    "late interaction": 2.8,
    "standardised": 0.75,
    "passage": 0.1,
    "backwards": 0.24,
    "length": 0.4,
    "rank": 0.95,
    "score": 2.7,
    "other kind of fact": -2.2,
    "leading document": 1.0,
}
"""What a sentence's score is the weighted sum of (see `sentence_features`), with the weights.

Fitted by `benchmarks.bench_citations` on one half of three data sets; `passage` and `length` are
lower than in the fit, by what is cited at all on that half.
"""
_OF_CONTEXT = 0.7
"""What a token of a chunk's context counts of one of the sentence, chosen on the same half.

The document's name stands in each context: a sentence need not repeat it, such as a preamble does.
"""
_OF_NAMES = 0.3
"""What a token of a name counts of another: names say whose, and stand where parties are named."""
_NAME = re.compile(r"(?!^)(?<![.?!:] )\b[A-Z][\w-]*[a-z][\w-]*")
_GERMAN = re.compile(
    r"\b(?:der|das|dem|und|wie|wer|wann|welche\w*|ist|sind|wird|muss|darf|kann|für|nach|zu[mr])\b"
)
"""Words of questions in German, which writes all nouns as English does names."""
_HEADING = re.compile(r"#+\s|(?=[^a-z]*[A-Z])[^\W_a-z][A-Z\d\s.,:;&'’()/=-]{0,158}[^.]\Z")
"""A heading of Markdown, or a line in capitals that is no sentence."""
_TABLE_RULE = r"\|(?:[ ]*:?-+:?[ ]*\|)+[ ]*"
_TABLE_HEAD = re.compile(rf"\|.*\n{_TABLE_RULE}(?:\n|\Z)")
"""The names of a table's columns, with the line below them."""
_NO_HEAD = re.compile(rf"(?:\A|\n)[| ]+\n{_TABLE_RULE}\n\Z")
"""What stands before them in the tables of Word, which names no columns by itself."""
_LONGEST_RULE = 300
_LONGEST_LIST = 1_000
"""Maximum number of characters of what leads in a list with the items that are quoted with it."""
_WITHIN = 3.0
"""Largest difference in score from the best sentence at which a further one is added."""
_WITHIN_FACTS = 1.2
"""The same where the best states the kind of fact that is asked for: another states a wrong one.

Chosen on one half of the sample's documents.
"""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a ranked chunk; `start` is its offset into the document's text."""

    chunk: ScoredChunk
    rank: int
    start: int
    text: str


class Compared(NamedTuple):
    """Sentences with their features, shape (sentences, `FEATURES`), compared with a query."""

    sentences: list[Sentence]
    features: Floats


class Chosen(NamedTuple):
    """How surely a question is answered; the sentences that do, best first, if any.

    Each comes with its late interaction.
    """

    confidence: float
    sentences: list[tuple[Sentence, float]]


def extract_answers(
    questions: Sequence[tuple[str, Sequence[ScoredChunk]]],
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration = DEFAULT,
) -> list[Answer]:
    """Return an answer per question.

    Of the first `contexts` chunks' sentences those that score highest are taken, at most
    `sentences` (see `FEATURES`); they are cited best first, one a line. `confidence` is the chance
    that the passages hold the answer; below the settings', else below the calibration's `least`,
    the answer is `NOTHING_ANSWERS`, without citations.
    """
    asked = [ToAnswer(question, "general", chunks) for question, chunks in questions]
    return [as_answer(choose(one, settings, reader, calibration)) for one in asked]


def choose(
    asked: ToAnswer, settings: ExtractiveAnswers, reader: Reader, calibration: Calibration
) -> Chosen:
    """Return the sentences that answer a question; see `extract_answers`."""
    query, chunks = asked.query or asked.ask, asked.chunks[: settings.contexts]
    read, found = read_asked(asked.ask, query, chunks, asked.first, reader, asked.weights)
    if found is None:
        return Chosen(0.0, [])
    confidence = float(calibration.chances(found.row))
    least = calibration.least if settings.confidence is None else settings.confidence
    if not confidence or confidence < least:
        return Chosen(confidence, [])
    kinds = kinds_asked(asked.ask)
    of_names = 1.0 if "party" in kinds else _OF_NAMES
    of_names = 0.0 if asked.kind == "comparison" else of_names  # each name is of another's row
    sentences, features = sentence_features(asked.ask, read, reader, asked.weights, of_names)
    if not sentences:
        return Chosen(confidence, [])
    # a list may be of several documents, unless one was named
    lists = asked.kind == "comprehensive" and query == asked.ask
    counted = {**FEATURES, "leading document": 0.0} if lists else FEATURES
    scores = features @ np.array(list(counted.values()))
    order = np.argsort(-scores, kind="stable")[: settings.sentences]
    to_the_point = kinds and states(sentences[order[0]].text, kinds)
    within = _WITHIN_FACTS if to_the_point else _WITHIN
    near: list[tuple[Sentence, float]] = []
    for i in order:
        if scores[i] >= scores[order[0]] - within and not _overlaps(sentences[i], near):
            near.append((sentences[i], float(features[i, 0])))
    return Chosen(confidence, near)


def _overlaps(one: Sentence, chosen: Sequence[tuple[Sentence, float]]) -> bool:
    """Tell whether a sentence and a chosen one are a list and an item of it."""
    return any(
        one.chunk.document_id == other.chunk.document_id
        and one.start < other.start + len(other.text)
        and other.start < one.start + len(one.text)
        for other, _ in chosen
    )


def as_answer(chosen: Chosen) -> Answer:
    """Return chosen sentences as quotes, `NOTHING_ANSWERS` where there are none."""
    if not chosen.sentences:
        return Answer(NOTHING_ANSWERS, answered=False, confidence=chosen.confidence)
    citations = tuple(
        Citation(
            number,
            sentence.chunk.chunk_id,
            sentence.chunk.document_id,
            sentence.start,
            sentence.start + len(sentence.text),
            sentence.text,
        )
        for number, (sentence, _) in enumerate(chosen.sentences, 1)
    )
    return Answer("\n".join(c.text for c in citations), True, citations, chosen.confidence)


def sentence_features(
    query: str,
    read: Sequence[ReadPassage],
    reader: Reader,
    weights: Weights | None = None,
    of_names: float = _OF_NAMES,
) -> Compared:
    """Return the sentences of passages that were read, best first, with their features.

    - late interaction: the mean, weighted by the tokens' rarity, names `of_names` as much, of
      the cosine of each token of the query to the nearest of the sentence, or of its heading, the
      names of its table's columns or its chunk's context, which say what it is about and count
      `_OF_CONTEXT` as much (see `interaction`);
    - standardised: that less its mean over all sentences, by its standard deviation;
    - passage: the same of the whole chunk's text;
    - backwards: the same from the sentence's tokens to the query's, standardised;
    - length: the logarithm of its characters;
    - rank: one over the rank of its chunk; score: the chunk's score over the best one's;
    - other kind of fact: 1 where a duration, a sum … is asked for and the sentence states none;
    - leading document: 1 in the document of the best chunk.

    A sentence of overlapping chunks stands once; headings, names of columns and what has no words
    are left out.
    """
    if not read:
        return Compared([], np.empty((0, len(FEATURES))))
    question = reader.question(query)
    shares = importance(question.ids, (one.tokens.ids for one in read), weights)
    if names := " ".join(_names(query)):
        counted = shares * np.where(np.isin(question.ids, token_ids(names)), of_names, 1.0)
        shares = counted / counted.sum() if counted.any() else shares
    best_score = max(one.chunk.score for one in read)
    kinds = kinds_asked(query)
    seen: set[tuple[str, int, int]] = set()
    sentences: list[Sentence] = []
    rows: list[list[float]] = []
    for rank, chunk, tokens in read:
        of_whole = cosines(tokens.whole, question)
        of_tokens, of_context = of_whole[: len(tokens.ids)], of_whole[len(tokens.ids) :]
        context = section = above = _OF_CONTEXT * nearest(of_context)
        leads = float(chunk.document_id == read[0].chunk.document_id)
        weight = rarity(tokens.ids, weights)
        whole = float(nearest(of_tokens) @ shares)
        starts = np.array([start for start, _ in tokens.spans], np.int64)
        for start, end in _sentence_spans(chunk.text):
            place = (chunk.document_id, chunk.start + start, chunk.start + end)
            text = chunk.text[start:end]
            own = slice(*np.searchsorted(starts, [start, end]))
            met = nearest(of_tokens[own])
            if _HEADING.match(text):
                above = section = np.maximum(_OF_CONTEXT * met, context)
                continue
            if _is_table_head(chunk.text, start):
                above = np.maximum(_OF_CONTEXT * met, section)
                continue
            if chunk.text[chunk.text.rfind("\n", 0, start) + 1] != "|":
                above = section
            if place in seen or not has_terms(text):
                continue
            seen.add(place)
            back = of_tokens[own].max(axis=1, initial=0.0)
            backwards = float(back @ weight[own] / max(weight[own].sum(), 1e-9))
            late = float(np.maximum(met, above) @ shares)
            relative = chunk.score / best_score if best_score > 0 else 0.0
            other = float(not states(text, kinds))
            sentences.append(Sentence(chunk, rank, place[1], text))
            length = math.log(len(text))
            rows.append([late, late, whole, backwards, length, 1 / rank, relative, other, leads])
    features = np.array(rows).reshape(-1, len(FEATURES))
    for column in (1, 2, 3):
        features[:, column] -= features[:, column].mean() if len(rows) else 0.0
        features[:, column] /= (features[:, column].std() if len(rows) else 0.0) + 1e-6
    return Compared(sentences, features)


def _is_table_head(text: str, start: int) -> bool:
    """Tell whether the sentence there names the columns of a table."""
    if text[start] != "|":
        return False
    before = text[max(0, start - _LONGEST_RULE) : start]
    return bool(_TABLE_HEAD.match(text, start) or _NO_HEAD.search(before))


def _names(query: str) -> list[str]:
    """Return the words that are written as names are: capitalised inside of a sentence."""
    return [] if _GERMAN.search(query) else _NAME.findall(query)


# The same chunks are found for many queries, and under many configurations.
@lru_cache(maxsize=4096)
def _sentence_spans(text: str) -> list[Span]:
    """Return the sentences of a text; what leads in a list goes on to its last item."""
    spans = sentence_spans(text)
    return [(start, _end_of_list(text, spans[n:])) for n, (start, _) in enumerate(spans)]


def _end_of_list(text: str, spans: Sequence[Span]) -> int:
    (start, end), *following = spans
    if text[start:end].endswith(":"):
        for first, last in following:
            is_item = LIST_ITEM.match(text, first) and not _HEADING.match(text[first:last])
            if not is_item or last - start > _LONGEST_LIST:
                break
            end = last
    return end
