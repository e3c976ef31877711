"""Compare documents in a table with one row per document or compared name."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from rapidfuzz import fuzz

from rag_pipeline.answering.agreement import ranked_sentences
from rag_pipeline.answering.extractive import (
    NO_ANSWER,
    Ranked,
    as_answer,
    choose,
    quoted,
    rank_sentences,
)
from rag_pipeline.answering.facts import kinds_asked, states
from rag_pipeline.answering.intent import sides_of, uncompared
from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.naming import about
from rag_pipeline.answering.reading import Reader, multilingual
from rag_pipeline.answering.sentences import Sentence
from rag_pipeline.answering.sides import has_words, rows_of_sides, side_query
from rag_pipeline.answering.structured import structured_answer
from rag_pipeline.answering.tables import DocumentOf
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.config.calibration import Calibration
from rag_pipeline.datamodels import (
    Answer,
    Citation,
    ComparisonRow,
    ScoredChunk,
    SearchResult,
)
from rag_pipeline.imports import compiled
from rag_pipeline.search.standing import are_versions, asks_for, in_force, lost, standings

MAX_CONTEXTS = 50
"""Maximum number of passages that an answer is made from."""
COUNTERPARTS = 30
"""Number of passages in which the other side of a comparison is searched for."""
_COMPARED_DOCUMENTS = 6
_FEWEST_ROWS = 2
"""Least number of rows of a table after empty rows at its end are dropped."""
_COMPARED_PASSAGES = 8
_QUOTED_A_SIDE = 4
"""Maximum number of quotes in a row of a comparison."""
_LEAST_MET = 0.78
"""Least match of a sentence in a table, as a share of the best sentence's value.

Chosen on comparisons of the sample's documents.
"""
_LEAST_ALIKE = 1.07
"""Least agreement of a sentence with a quote of the other side. Chosen on three mixed folders."""
_LEAST_RATIO = 75
"""Least similarity in letters, from 0 to 100, of such a sentence without the multilingual model."""
_NEAR = 6
"""Number of first sentences of two versions that are read for a change."""
_VERSION = re.compile(r"(?i:(?<![^\W_])v(?:er(?:sion)?)?)[ ._-]?(?P<number>\d{1,3})(?!\d)")
_OLD_AND_NEW = (
    r"\b(?:old|previous|former|first|draft|alte\w*|bisherig\w*|früher\w*|entwurf|ancien\w*|"
    r"projet)\b[^?]{1,60}\b(?:new|current|final|now|approved|neue\w*|jetzt|heute|endgültig\w*|"
    r"nouve\w+|définiti\w+)\b|"
    r"\b(?:new|now|current|neue\w*|jetzt|nouve\w+)\b[^?]{1,60}\b(?:old|previous|before|than|alte\w*|"
    r"früher|ancien\w*)\b|\b(?:two|both|beiden?|deux) (?:versions?|editions?|fassungen|éditions)\b"
)
"""Words of two versions, in English, German and French."""


Search = Callable[[str], Sequence[ScoredChunk]]
"""Returns the best chunks for a text."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The settings and tools that answer a comparing question."""

    settings: ExtractiveAnswers
    reader: Reader
    calibration: Calibration
    document_of: DocumentOf
    search: Search | None = None
    """Finds passages for the other side if the answer quotes only one document."""

    def answer(self, found: SearchResult, ranked: Ranked) -> Answer:
        """Return a table with one row per compared name, or per document without names.

        A row is empty if no sentence fits the query (see `_to_the_point`). If only one row has
        quotes, the most similar sentence of another document becomes the second row.
        """
        sides = sides_of(found.query)
        versions = [*versions_of(found.chunks, sides).values()] if sides else []
        if pair := versions or (None if sides else compared_versions(found)):
            sentences = _of_versions(found, pair, *self._how(confidence=0.0))
            quotes = [as_answer(0.0, own).citations for own in sentences]
            if all(quotes):
                return _compared([*zip(pair, quotes, strict=True)], ranked.confidence)
        if sides and (of_sides := rows_of_sides(found, sides, self.document_of)):
            return _compared([*zip(sides, of_sides, strict=True)], ranked.confidence)
        by_name = self._by_name(found, sides, ranked.confidence) if sides else None
        answer = by_name or self._by_document(found)
        told = [row for row in answer.table if row.number is not None]
        if len(told) == 1 and (other := self._counterpart(found, answer.citations[0])):
            rows = [(told[0].document_id, answer.citations), other]
            return _compared(rows, answer.confidence or 0.0)
        return answer

    def _counterpart(
        self, found: SearchResult, quote: Citation
    ) -> tuple[str, Sequence[Citation]] | None:
        """Return another document's id with its sentence most similar to a quote, or None.

        If the passages hold another version of the quote's document, only this version is read.
        """
        chunks = [c for c in found.chunks if are_versions(c.document_id, quote.document_id)]
        chunks = self._others(chunks, found.query, quote)
        if not chunks and self.search is not None:
            chunks = self._others(self.search(quote.text)[:COUNTERPARTS], found.query, quote)
        # Where the packaged model found the passages, the multilingual model is not opened.
        by_meaning = found.token_weights is None and multilingual() is not None
        agreed = ranked_sentences(quote.text, chunks, by_meaning=by_meaning) if chunks else None
        if not agreed or not agreed.sentences:
            return None
        first = agreed.sentences[0]
        is_alike = agreed.agreements[0] >= _LEAST_ALIKE
        if not by_meaning:
            is_alike = fuzz.ratio(first.text, quote.text) >= _LEAST_RATIO
        if not is_alike or not states(first.with_units, kinds_asked(found.query)):
            return None
        return first.chunk.document_id, as_answer(0.0, [first]).citations

    def _others(
        self, chunks: Sequence[ScoredChunk], query: str, quote: Citation
    ) -> list[ScoredChunk]:
        """Return the chunks of other documents, except drafts and the like (see `standings`)."""
        standing = standings({chunk.document_id for chunk in chunks})
        return [
            c
            for c in chunks
            if c.document_id != quote.document_id
            and (
                standing.get(c.document_id) in (None, "old version")
                or asks_for(query, c.document_id)
            )
        ]

    def _by_document(self, found: SearchResult) -> Answer:
        chunks_of: dict[str, list[ScoredChunk]] = {}
        for chunk in in_force(found.query, found.chunks[: found.contexts or None]):
            chunks_of.setdefault(chunk.document_id, []).append(chunk)
        documents = list(chunks_of)[:_COMPARED_DOCUMENTS]
        shown = (chunks_of[document_id][:_COMPARED_PASSAGES] for document_id in documents)
        chosen = [choose(replace(found, chunks=own), *self._how()) for own in shown]
        kept = _to_the_point(found.search_text, [sentences for _, sentences in chosen])
        best = max((confidence for confidence, _ in chosen), default=0.0)
        quotes = [as_answer(0.0, sentences).citations for sentences in kept]
        return _compared(list(zip(documents, quotes, strict=True)), best)

    def _by_name(self, found: SearchResult, sides: tuple[str, str], best: float) -> Answer | None:
        """Return an answer with one row per compared name, made from its own passages.

        A name without passages has an empty row. Return None if both rows are empty or the
        confidence is too low. `best` is the confidence from all passages. The passages of a
        name may raise this confidence.
        """
        surely = self._how(confidence=0.0, contexts=MAX_CONTEXTS)
        names: list[str] = []
        quotes: list[Sequence[Citation]] = []
        plain: list[Sequence[Sentence]] = []
        titled = [[c for c in found.chunks if _titles(c, side)] for side in sides]
        confidences: list[float] = []
        are_alike = True  # whether the sentences of both names were compared with the same words
        for (side, other), named in zip((sides, sides[::-1]), titled, strict=True):
            own = named if all(titled) else [c for c in found.chunks if _has_side(c, side)]
            own.sort(key=lambda c: _has_side(c, other))  # passages about one name alone come first
            first = [c for c in own if c.document_id == own[0].document_id][:_COMPARED_PASSAGES]
            asked = side_query(found.query, other)
            one = replace(found, query=asked, search_text=asked, chunks=first)
            # The names, and words such as "higher", would outweigh the compared words.
            unnamed = uncompared(side_query(asked, side)) or asked
            plainly = replace(one, query=unnamed, search_text=unnamed)
            ranked = rank_sentences(plainly, *surely)
            if not ranked.sentences:  # the rest of the question alone is unlike the passages
                ranked = rank_sentences(one, *surely)
                are_alike = False
            confidences.append(ranked.confidence)
            if not all(titled):  # perhaps a document has a section for each name
                scores = zip(ranked.sentences, ranked.scores, strict=True)
                below = [pair for pair in scores if has_words(pair[0].heading, side)]
                if below:
                    own_sentences, own_scores = zip(*below, strict=True)
                    ranked = ranked._replace(sentences=own_sentences, scores=own_scores)
            structured = structured_answer(one, ranked, self.document_of)
            names.append(first[0].document_id if first else side)
            quotes.append(structured.citations if structured else ())
            plain.append([] if structured else ranked.first(1))
        kept = _to_the_point(found.search_text, plain) if are_alike else plain
        rows = [
            (n, q or as_answer(0.0, k).citations)
            for n, q, k in zip(names, quotes, kept, strict=True)
        ]
        said = self.settings.confidence
        least = self.calibration.least if said is None else said
        best = max(best, *confidences)
        if best < least or not any(citations for _, citations in rows):
            return None
        return _compared(rows, best)

    def _how(self, **changed: float) -> tuple[ExtractiveAnswers, Reader, Calibration]:
        return self.settings.model_copy(update=changed), self.reader, self.calibration


def _of_versions(
    found: SearchResult,
    versions: Sequence[str],
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration,
) -> list[list[Sentence]]:
    """Return for each version the sentence about the compared thing, or [].

    One version has the best sentence. The other version has the sentence most similar to it. A
    sentence with the same words in both versions is not quoted if a changed one ranks near.
    The search omits words of the documents' names, because they do not distinguish sentences.
    """
    both = [c for c in found.chunks if c.document_id in versions]
    names = "\n".join(f"{c.title}\n{c.document_id}" for c in both)
    query = uncompared(found.query) or found.query
    asked = sorted(Words(query, [query]).asked, key=query.casefold().find)
    text = " ".join(w for w in asked if not has_words(names, w)) or query
    one = replace(found, search_text=text, chunks=both)
    sentences = rank_sentences(one, settings, reader, calibration).sentences
    first: tuple[Sentence, Sentence | None] | None = None
    for best in sentences[:_NEAR]:
        others = [s for s in sentences if s.chunk.document_id != best.chunk.document_id]
        similar = max(others, key=lambda s: fuzz.ratio(s.text, best.text), default=None)
        first = first or (best, similar)
        if similar and similar.text != best.text:
            first = best, similar
            break
    return [[s for s in first or () if s and s.chunk.document_id == v] for v in versions]


def _compared(sides: Sequence[tuple[str, Sequence[Citation]]], confidence: float) -> Answer:
    citations: list[Citation] = []
    rows = []
    for name, cited in sides:
        most = cited[:_QUOTED_A_SIDE]
        own = [replace(c, number=len(citations) + n) for n, c in enumerate(most, 1)]
        citations += own
        said = " ".join(map(quoted, own))
        rows.append(ComparisonRow(name, said or "—", own[0].number if own else None))
    while len(rows) > _FEWEST_ROWS and rows[-1].number is None:
        rows.pop()
    if not citations:
        return Answer(NO_ANSWER, answered=False, confidence=confidence)
    return Answer(
        as_table(rows),
        answered=True,
        citations=tuple(citations),
        confidence=confidence,
        table=tuple(rows),
    )


def _has_side(chunk: ScoredChunk, side: str) -> bool:
    """Return whether a passage, its context or its document's name has all words of a name."""
    return has_words(about(chunk), side)


def _titles(chunk: ScoredChunk, side: str) -> bool:
    name = f"{chunk.title}\n{chunk.document_id}"
    if version := _VERSION.fullmatch(side):
        return any(version["number"] == one["number"] for one in _VERSION.finditer(name))
    return has_words(name, side)


def versions_of(chunks: Sequence[ScoredChunk], sides: tuple[str, str]) -> dict[str, str]:
    """Return the document id of each compared year or version, or {} if one has no document.

    The names of the two documents differ by the year or version alone.
    """
    if not all(any(map(str.isdigit, side)) for side in sides):
        return {}
    one, other = ([c.document_id for c in chunks if _titles(c, side)] for side in sides)
    pairs = ((a, b) for a, b in product(one, other) if a != b and are_versions(a, b))
    return dict(zip(sides, next(pairs, ()), strict=False))


def compared_versions(found: SearchResult) -> tuple[str, str] | None:
    """Return the ids of the best two versions of a document, or None.

    The question compares, or has words such as "old" and "new", and no version is left out.
    """
    ids = list(dict.fromkeys(chunk.document_id for chunk in found.chunks))
    both = compiled(_OLD_AND_NEW, re.IGNORECASE).search(found.query)
    pairs = ((one, two) for two in ids for one in ids[: ids.index(two)] if are_versions(one, two))
    kept = (p for p in pairs if not lost(found.query, p))
    return next(kept, None) if both or found.kind == "comparison" else None


def _to_the_point(search_text: str, chosen: Sequence[Sequence[Sentence]]) -> list[list[Sentence]]:
    """Return the sentences that have at least 78 % of the best sentence's match.

    If a sentence states a fact of the kind that the query asks for, only such sentences are kept.
    """
    best = max((s.match for sentences in chosen for s in sentences), default=0.0)
    near = [[s for s in own if s.match >= _LEAST_MET * best] for own in chosen]
    kinds = kinds_asked(search_text)
    stating = [[s for s in own if states(s.with_units, kinds)] for own in near]
    return stating if any(stating) else near


def as_table(rows: Sequence[ComparisonRow]) -> str:
    """Return a Markdown table of the rows, with escaped bars in the cells."""
    cells = [(r.document_id.replace("|", "\\|"), r.text.replace("|", "\\|")) for r in rows]
    lines = [f"| {document} | {text} |" for document, text in cells]
    return "\n".join(["| compared | what it says |", "| --- | --- |", *lines])
