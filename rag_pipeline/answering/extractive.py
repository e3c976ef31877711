"""Answer with verbatim, cited sentences of the ranked chunks."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rag_pipeline.answering.agreement import ranked_sentences
from rag_pipeline.answering.amendments import Quoted, change_of
from rag_pipeline.answering.citing import cite
from rag_pipeline.answering.confidence import read_result, sentence_evidence
from rag_pipeline.answering.facts import is_below_cause, kinds_asked, states
from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.naming import capitalized
from rag_pipeline.answering.polarity import bounded_as
from rag_pipeline.answering.reading import (
    Floats,
    Passage,
    Reader,
    cosines,
    has_terms,
    importance,
    nearest,
    rarity,
    token_ids,
)
from rag_pipeline.answering.sentences import (
    HEADING,
    Sentence,
    is_address,
    is_table_head,
    spaced,
    spans_of,
)
from rag_pipeline.chunking.sentences import hard_breaks
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.config.calibration import DEFAULT, Calibration
from rag_pipeline.datamodels import Answer, Citation, SearchResult, Weights
from rag_pipeline.search.standing import in_force

NO_ANSWER = "No answer was found in the documents."
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
"""The weight of each feature in a sentence's score (see `sentence_features`).

Fitted by `benchmarks.bench_citations` on one half of three data sets. `passage` and `length` were
lowered after the fit, because the answers on that half then cite more gold sentences.
"""
_CONTEXT_WEIGHT = 0.7
"""Weight of a token of a chunk's context, relative to a token of a sentence.

Chosen on the same half. The context holds the document's name, which sentences need not repeat.
"""
_NAME_WEIGHT = 0.3
"""Weight of a name's token in a query, relative to other tokens. Names often occur anywhere."""
_LONGEST_PARAGRAPH = 300
_WITHIN = 3.0
"""Maximum difference in score between the best sentence and a further quoted sentence."""
_WITHIN_FACTS = 1.2
"""Maximum difference if the best sentence states a fact of the kind that the query asks for.

A second fact of that kind is often wrong. Chosen on one half of the sample's documents.
"""
_WIDER = 1.6
"""Factor of these differences where another model found the passages. Chosen on two folders."""


def extract_answers(
    found: Sequence[SearchResult],
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration = DEFAULT,
) -> list[Answer]:
    """Return one answer per query.

    The answer quotes up to `sentences` sentences of the first `contexts` chunks, best first (see
    `FEATURES`), one per line. `confidence` is the probability that the passages hold the answer. If
    it is below the setting `confidence`, by default `calibration.least`, the answer is
    `NOTHING_ANSWERS` without citations.
    """
    return [as_answer(*choose(one, settings, reader, calibration)) for one in found]


class Ranked(NamedTuple):
    """The sentences that may answer a query, best first, with their scores."""

    confidence: float
    sentences: Sequence[Sentence]
    scores: Sequence[float]
    within: float
    """Maximum difference in score between the best sentence and a further quoted sentence."""

    def first(self, most: int) -> list[Sentence]:
        """Return at most `most` sentences that score near the best, each once."""
        chosen: list[Sentence] = []
        for sentence, score in zip(self.sentences, self.scores, strict=True):
            if len(chosen) == most or score < self.scores[0] - self.within:
                break
            if not any(sentence.repeats(other) for other in chosen):
                chosen.append(sentence)
        return chosen

    def paragraph(self) -> "Ranked":
        """Return the sentences. Extend the best one to its paragraph if that is short prose."""
        first = self.sentences[0]
        if first.is_row:
            return self
        text, at = first.chunk.text, first.start - first.chunk.start
        start = text.rfind("\n\n", 0, at) + 2 if "\n\n" in text[:at] else 0
        end = text.find("\n\n", at + len(first.text))
        end = end if end >= 0 else len(text)
        # Lines of a scan or a list that are shorter than the others are no prose.
        cuts = [start + line for line in hard_breaks(text[start:end])]
        for cut in (c for c in cuts if not text[c:end].lstrip()[:1].islower()):
            start = cut if cut <= at else start
            end = min(end, cut) if cut >= at + len(first.text) else end
        whole = text[start:end].rstrip()
        if len(whole) > _LONGEST_PARAGRAPH or re.search(r"(?m)^\s*[|#*-]", whole):
            return self
        longer = replace(first, start=first.chunk.start + start, text=whole)
        return self._replace(sentences=[longer, *self.sentences[1:]])


def choose(
    found: SearchResult, settings: ExtractiveAnswers, reader: Reader, calibration: Calibration
) -> tuple[float, list[Sentence]]:
    """Return the confidence and the sentences that answer a query, best first."""
    ranked = rank_sentences(found, settings, reader, calibration)
    return ranked.confidence, ranked.first(settings.sentences)


def rank_sentences(
    found: SearchResult, settings: ExtractiveAnswers, reader: Reader, calibration: Calibration
) -> Ranked:
    """Return the confidence and all sentences, best first, or none if the confidence is low.

    Documents that another document replaces are not quoted (see `search.standing`). A sentence that
    amends the best sentence comes before it.
    """
    found = replace(found, chunks=in_force(found.query, found.chunks)[: settings.contexts])
    kinds = kinds_asked(found.search_text)
    name_weight = 1.0 if "party" in kinds else _NAME_WEIGHT
    if found.kind == "comparison":  # each row is about one of the names
        name_weight = 0.0
    lists = found.kind == "comprehensive"
    agreed = None
    if found.token_weights is None:  # another model found the passages
        # The query of a comparison also names the other side.
        asked = found.search_text if found.kind == "comparison" else found.query
        agreed = ranked_sentences(asked, found.chunks, name_weight)
    read: Sequence[Passage] = ()
    if agreed and calibration.by_sentence:
        known = sentence_evidence(found, agreed)
    else:
        read, known = read_result(found, reader)
    if known is None:
        return Ranked(0.0, (), (), _WITHIN)
    confidence = float(calibration.chances(known.row))
    least = calibration.least if settings.confidence is None else settings.confidence
    if not confidence or confidence < least:
        return Ranked(confidence, (), (), _WITHIN)
    if agreed:
        sentences, scores = agreed.sentences, agreed.scores
    else:
        sentences, scores = _by_tokens(found, read, reader, name_weight)
    if not sentences:
        return Ranked(confidence, (), (), _WITHIN)
    order = np.argsort(-scores, kind="stable")
    ordered = [sentences[i] for i in order]
    quoted = [(s.chunk, s.start - s.chunk.start, s.text) for s in ordered]
    changing = change_of(found.query, quoted, found.chunks)
    before = [] if changing is None else [changing]
    if not before and "cause" in kinds:
        before = sorted(_causes(quoted), key=lambda n: ordered[n].start)
    if before:  # quoted first, before the sentence that they change or explain
        scores[order[before]] = scores[order[0]]
        order = np.concatenate([order[before], np.delete(order, before)])
    to_the_point = kinds and states(sentences[order[0]].with_units, kinds)
    within = _WITHIN_FACTS if to_the_point and not (agreed and lists) else _WITHIN
    within *= _WIDER if agreed else 1.0
    return Ranked(confidence, [sentences[i] for i in order], scores[order].tolist(), within)


def _causes(sentences: Sequence[Quoted]) -> list[int]:
    """Return the positions of the first document's sentences below a heading such as `Cause`."""
    first = sentences[0][0].document_id
    return [
        n
        for n, (chunk, start, text) in enumerate(sentences)
        if chunk.document_id == first and is_below_cause(chunk.text[: start + len(text)])
    ]


def _by_tokens(
    found: SearchResult, read: Sequence[Passage], reader: Reader, name_weight: float
) -> tuple[list[Sentence], Floats]:
    """Return the sentences with their scores by `FEATURES`, in the order of the passages."""
    asked = found.search_text, read, reader, found.token_weights, name_weight
    sentences, features = sentence_features(*asked)
    lists = found.kind == "comprehensive" and found.query == found.search_text
    counted = {**FEATURES, "leading document": 0.0} if lists else FEATURES
    scores = features @ np.array(list(counted.values()))
    return sentences, scores


def word_share(words: Words, sentence: Sentence, names: frozenset[str] = frozenset()) -> float:
    """Return the weight of the query's words that occur in a sentence or above it.

    Above it are its heading, the chunk's context and the document's id. Words in `names` weigh
    less.
    """
    chunk = sentence.chunk
    about = "\n".join(
        [spaced(chunk, sentence.text), chunk.context, chunk.document_id, sentence.heading]
    )
    shared = words.in_text(about)
    return words.share(shared - names) + _NAME_WEIGHT * words.share(shared & names)


def as_answer(confidence: float, sentences: Sequence[Sentence]) -> Answer:
    """Return an answer of quoted sentences, or `NOTHING_ANSWERS` if there are no sentences."""
    if not sentences:
        return Answer(NOTHING_ANSWERS, answered=False, confidence=confidence)
    spans = [(s.start - s.chunk.start, s.start - s.chunk.start + len(s.text)) for s in sentences]
    citations = tuple(
        cite(number, sentence.chunk, span)
        for number, (sentence, span) in enumerate(zip(sentences, spans, strict=True), 1)
    )
    text = "\n".join(citation.text for citation in citations)
    return Answer(text, answered=True, citations=citations, confidence=confidence)


def quoted(citation: Citation) -> str:
    """Return the text of a citation on one line, in quotation marks and with its number."""
    return f"“{' '.join(citation.text.split())}” [{citation.number}]"


def sentence_features(
    query: str,
    read: Sequence[Passage],
    reader: Reader,
    weights: Weights | None = None,
    name_weight: float = _NAME_WEIGHT,
) -> tuple[list[Sentence], Floats]:
    """Return the sentences of passages, and an array of features, shape (sentences, `FEATURES`).

    - late interaction: the mean over the query's tokens of the highest cosine to a token of the
      sentence, weighted by rarity. Tokens of names in the query are multiplied by `name_weight`.
      Cosines to tokens of the heading, the table's header and the chunk's context are multiplied
      by `_CONTEXT_WEIGHT`.
    - standardised: the z-score of the late interaction over all sentences.
    - passage: the z-score of the late interaction of the whole chunk's text.
    - backwards: the z-score of the late interaction from the sentence's tokens to the query's.
    - length: the logarithm of the number of characters.
    - rank: 1 / the rank of the chunk.
    - score: the chunk's score / the best chunk's score.
    - other kind of fact: 1 if the sentence states no fact of the kind that the query asks for.
    - leading document: 1 for sentences of the best chunk's document.

    A sentence in overlapping chunks occurs once. Headings, table headers, addresses (see
    `is_address`), sentences without words or with an opposite bound (see `bounded_as`) are left
    out.
    """
    if not read:
        return [], np.empty((0, len(FEATURES)))
    question = reader.question(query)
    shares = importance(question.ids, (one.ids for one in read), weights)
    if names := " ".join(capitalized(query)):
        counted = shares * np.where(np.isin(question.ids, token_ids(names)), name_weight, 1.0)
        shares = counted / counted.sum() if counted.any() else shares
    best_score = max(one.chunk.score for one in read)
    kinds = kinds_asked(query)
    seen: set[tuple[str, int, int]] = set()
    sentences: list[Sentence] = []
    rows: list[list[float]] = []
    for one in read:
        chunk = one.chunk
        of_whole = cosines(one.signs, question)
        of_tokens, of_context = of_whole[: len(one.ids)], of_whole[len(one.ids) :]
        context = section = above = _CONTEXT_WEIGHT * nearest(of_context)
        leads = float(chunk.document_id == read[0].chunk.document_id)
        weight = rarity(one.ids, weights)
        whole = float(nearest(of_tokens) @ shares)
        for start, end in spans_of(chunk):
            place = (chunk.document_id, chunk.start + start, chunk.start + end)
            text = chunk.text[start:end]
            own = slice(*np.searchsorted(one.starts, [start, end]))
            met = nearest(of_tokens[own])
            if HEADING.match(text):
                above = section = np.maximum(_CONTEXT_WEIGHT * met, context)
                continue
            if is_address(query, chunk.document_id, text):
                continue
            if is_table_head(chunk, start):
                above = np.maximum(_CONTEXT_WEIGHT * met, section)
                continue
            if chunk.text[chunk.text.rfind("\n", 0, start) + 1] != "|":
                above = section
            if place in seen or not has_terms(text) or bounded_as(query, text) < 0:
                continue
            seen.add(place)
            back = of_tokens[own].max(axis=1, initial=0.0)
            backwards = float(back @ weight[own] / max(weight[own].sum(), 1e-9))
            late = float(np.maximum(met, above) @ shares)
            relative = chunk.score / best_score if best_score > 0 else 0.0
            sentences.append(Sentence(chunk, one.rank, place[1], text, late))
            other = float(not states(sentences[-1].with_units, kinds))
            length, rank = math.log(len(text)), 1 / one.rank
            rows.append([late, late, whole, backwards, length, rank, relative, other, leads])
    features = np.array(rows).reshape(-1, len(FEATURES))
    for column in (1, 2, 3):
        features[:, column] -= features[:, column].mean() if len(rows) else 0.0
        features[:, column] /= (features[:, column].std() if len(rows) else 0.0) + 1e-6
    return sentences, features
