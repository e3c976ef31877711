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
    quoted,
    rank_sentences,
)
from rag_pipeline.answering.facts import kinds_asked, states
from rag_pipeline.answering.halves import Halves, halves
from rag_pipeline.answering.intent import sides_of, uncompared
from rag_pipeline.answering.matching import Words, words_of
from rag_pipeline.answering.naming import NO_NAMES, about, capitalized
from rag_pipeline.answering.reading import Reader, differ, multilingual, written_in
from rag_pipeline.answering.sentences import Sentence
from rag_pipeline.answering.sides import has_words
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
from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.search.standing import are_versions, asks_for, lost, standings

MAX_CONTEXTS = 50
"""Maximum number of passages that an answer is made from."""
COUNTERPARTS = 30
"""Number of passages in which the other side of a comparison is searched for."""
_COMPARED = 6
"""Maximum number of quotes in a comparison without sides."""
_FEWEST_ROWS = 2
"""Least number of rows of a table after empty rows at its end are dropped."""
_QUOTED_A_SIDE = 4
"""Maximum number of quotes in a row of a comparison."""
_LEAST_ALIKE = 1.07
"""Least agreement of a sentence with a quote of the other side. Chosen on three mixed folders."""
_LEAST_RATIO = 75
"""Least similarity in letters, from 0 to 100, of such a sentence without the multilingual model."""
_NEAR = 6
"""Number of first sentences of two versions that are read for a change."""
_QUOTED_OF_SIDE = 2
"""Maximum number of quotes from the answer about one side."""
_VERSION = re.compile(r"(?i:(?<![^\W_])v(?:er(?:sion)?)?)[ ._-]?(?P<number>\d{1,3})(?!\d)")
_OLD_AND_NEW = (
    r"\b(?:old|previous|former|first|draft|alte\w*|bisherig\w*|früher\w*|entwurf|ancien\w*|"
    r"projet)\b[^?]{1,60}\b(?:new|current|final|now|approved|neue\w*|jetzt|heute|endgültig\w*|"
    r"nouve\w+|définiti\w+)\b|"
    r"\b(?:new|now|current|neue\w*|jetzt|nouve\w+)\b[^?]{1,60}\b(?:old|previous|before|than|alte\w*|"
    r"früher|ancien\w*)\b|\b(?:two|both|beiden?|deux) (?:versions?|editions?|fassungen|éditions)\b"
)
"""Words of two versions, in English, German and French."""

_COMPARED_DOCUMENTS = 6
_LEAST_MET = 0.78
"""Least score of another document's row, as a share of the best. Chosen on the sample."""


Search = Callable[[str], Sequence[ScoredChunk]]
"""Returns the best chunks for a text."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The settings and tools that answer a comparing question."""

    settings: ExtractiveAnswers
    reader: Reader
    calibration: Calibration
    ask: Callable[[str, Sequence[ScoredChunk]], Answer]
    """Answers a question from passages."""
    search: Search | None = None
    """Finds passages for the other side if the answer quotes only one document."""

    def answer(self, found: SearchResult, ranked: Ranked) -> Answer:
        """Return a table with one row per side or version, or else per document.

        A question about each side is answered on its own (see `halves`). A row is empty if no
        sentence fits. If only one row has quotes, or both have the same, the most similar sentence
        of another document or version becomes the second row.
        """
        split, sides = halves(found.query), sides_of(found.query)
        versions = [*versions_of(found.chunks, sides).values()] if sides else []
        if pair := versions or (None if sides else compared_versions(found)):
            asked = split.common if split else uncompared(found.query)
            if all(quotes := self._of_versions(found, asked or found.query, pair)):
                return _compared([*zip(pair, quotes, strict=True)], ranked.confidence)
        by_side = split and split.are_sides and self._by_side(found, split, ranked.confidence)
        answer = by_side or self._by_document(ranked)
        told = [row.number for row in answer.table if row.number is not None]
        cited = [citation for citation in answer.citations if citation.number in told]
        if len({(c.document_id, c.start) for c in cited}) != 1:
            return answer
        first, own = cited[0], answer.citations if len(told) == 1 else cited[:1]
        names = sides or (_distinct(found.query, None, split.questions) if split else ())
        lacking = [row.document_id for row in answer.table if row.number is None]
        empty = next((name for name in lacking if name in names), "")
        other = self._counterpart(found, first, len(told) > 1, empty)
        rows = [(first.document_id, own), *([other] if other else [])]
        if other and empty:
            rows = [(name, other[1] if name == empty else own) for name in names]
        return _compared(rows, answer.confidence or 0.0) if other or len(told) > 1 else answer

    def _by_side(self, found: SearchResult, split: Halves, best: float) -> Answer | None:
        """Return an answer with a row for each side, or None if the confidence is too low.

        `best` is the confidence from all passages. The passages of a side may raise it.
        """
        sides, asked = sides_of(found.query), split.questions
        chunks = [found.chunks if self.search is None else self.search(one) for one in asked]
        names = _distinct(found.query, sides, asked)
        for n, own in enumerate(names):
            chunks[n] = [c for c in chunks[n] if _is_about(c, own, found.query)]
        made = [self.ask(*pair) for pair in zip(asked, chunks, strict=True)]
        texts = [c.text for one in made for c in one.citations[:1]]
        if sides and len(texts) > len({*texts}) and not any(map(str.isdigit, texts[0])):
            # A sentence with both names and without a number compares nothing.
            for n, other in enumerate(sides[::-1]):
                chunks[n] = [c for c in chunks[n] if not has_words(about(c), other)] or chunks[n]
            made = [self.ask(*pair) for pair in zip(asked, chunks, strict=True)]
        best = max(best, *(answer.confidence or 0.0 for answer in made))
        said = self.settings.confidence
        if best < (self.calibration.least if said is None else said):
            return None
        firsts = [one.citations[0] if one.citations else None for one in made]
        words = Words(split.common, [c.text for c in firsts if c])
        named = words_of(" ".join(capitalized(found.query)))
        held = [words.in_text(c.text) - named if c else named for c in firsts]
        rows = []
        for n, (name, one) in enumerate(zip(sides or names, made, strict=True)):
            cited, of_other = list(one.citations[:_QUOTED_OF_SIDE]), firsts[1 - n]
            cited[1:] = [
                c
                for c in cited[1:]
                if c.document_id == cited[0].document_id
                and not (of_other and c.text in of_other.text)
                and (c.text[0] != "|" or c.start > cited[0].start)  # no names of columns
            ]
            name = name or (cited[0].document_id if cited else asked[n])
            first = cited[0].text if cited else "|"
            is_prose = first[0] != "|" and not differ(language_of(found.query), written_in(first))
            if is_prose and held[1 - n] and not held[n]:
                cited = []
            rows.append((name, cited))
        return _compared(rows, best) if any(firsts) or not any(chunks) else None

    def _counterpart(
        self, found: SearchResult, quote: Citation, is_version: bool, name: str
    ) -> tuple[str, Sequence[Citation]] | None:
        """Return another document's id with its sentence most similar to a quote, or None.

        If the passages hold another version of the quote's document, only this version is read.
        With `is_version`, there must be another version. Its passage holds `name`.
        """
        chunks = self._others(found.chunks, found.query, quote, True)
        if not chunks and self.search is not None:
            more = self.search(quote.text)[:COUNTERPARTS]
            chunks = self._others(more, found.query, quote, is_version)
        chunks = [c for c in chunks if _is_about(c, name, found.query)]
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
        self, chunks: Sequence[ScoredChunk], query: str, quote: Citation, is_version: bool
    ) -> list[ScoredChunk]:
        """Return the chunks of other documents, except drafts and the like (see `standings`).

        With `is_version`, the ids of these documents differ in numbers alone, or they are versions.
        """
        standing, own = standings({chunk.document_id for chunk in chunks}), quote.document_id
        return [
            c
            for c in chunks
            if (other := c.document_id) != own
            and (standing.get(other) in (None, "old version") or asks_for(query, other))
            and (not is_version or _are_alike(other, own))
        ]

    def _by_document(self, ranked: Ranked) -> Answer:
        """Return an answer with a row for each document of the best sentences."""
        rows: dict[str, list[Sentence]] = {}
        for sentence in ranked.first(_COMPARED):
            rows.setdefault(sentence.chunk.document_id, []).append(sentence)
        near = _LEAST_MET * max(ranked.scores, default=0.0)
        for sentence, score in zip(ranked.sentences, ranked.scores, strict=True):
            if score >= near and len(rows) < _COMPARED_DOCUMENTS:
                rows.setdefault(sentence.chunk.document_id, [sentence])
        quotes = ((name, as_answer(0.0, own).citations) for name, own in rows.items())
        return _compared([*quotes], ranked.confidence)

    def _of_versions(
        self, found: SearchResult, query: str, versions: Sequence[str]
    ) -> list[tuple[Citation, ...]]:
        """Return for each version the quote about the compared thing, or ().

        One version has the best sentence. The other version has the sentence most similar to it. A
        sentence with the same words in both versions is not quoted if a changed one ranks near.
        """
        both = [c for c in found.chunks if c.document_id in versions]
        one = replace(found, search_text=query, chunks=both)
        sentences = rank_sentences(one, *self._how(confidence=0.0)).sentences
        first: tuple[Sentence, ...] = ()
        for best in sentences[:_NEAR]:
            others = [s for s in sentences if s.chunk.document_id != best.chunk.document_id]
            similar = max(others, key=lambda s: fuzz.ratio(s.text, best.text), default=best)
            first = first or (best, similar)
            if similar.text != best.text:
                first = best, similar
                break
        chosen = ([s for s in first if s.chunk.document_id == v][:1] for v in versions)
        return [as_answer(0.0, own).citations for own in chosen]

    def _how(self, **changed: float) -> tuple[ExtractiveAnswers, Reader, Calibration]:
        return self.settings.model_copy(update=changed), self.reader, self.calibration


def _compared(sides: Sequence[tuple[str, Sequence[Citation]]], confidence: float) -> Answer:
    citations: list[Citation] = []
    rows = []
    for name, cited in sides:
        most = cited[:_QUOTED_A_SIDE]
        own = [replace(c, number=len(citations) + n) for n, c in enumerate(most, 1)]
        citations += own
        said = " ".join(map(quoted, own)) or f"— (nothing found about {name})"
        rows.append(ComparisonRow(name, said, own[0].number if own else None))
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


def _distinct(query: str, sides: tuple[str, str] | None, asked: tuple[str, str]) -> tuple[str, str]:
    """Return for each side the words of its name that the other side lacks, or ""."""
    proper = capitalized(query)
    names = sides or (" ".join(w for w in one.split() if w in proper) for one in asked)
    one, other = map(str.split, names)
    return " ".join(w for w in one if w not in other), " ".join(w for w in other if w not in one)


def _is_about(chunk: ScoredChunk, name: str, query: str) -> bool:
    """Return whether a passage may be about a name. Texts have other forms of months and nouns."""
    if not (words := words_of(name)).isdisjoint(NO_NAMES) or _holds(about(chunk), name):
        return True
    is_noun = language_of(query) == "de" and words <= dictionary("de")
    return is_noun and differ("de", written_in(chunk.text))


def _holds(text: str, side: str) -> bool:
    """Return whether a text has a name's words, or a year or version in any form."""
    if version := _VERSION.fullmatch(side):
        return any(version["number"] == one["number"] for one in _VERSION.finditer(text))
    mark = r"\d" if side.isdecimal() else r"[^\W_]"
    return has_words(text, side) or bool(
        re.search(rf"(?<!{mark}){re.escape(side)}(?!{mark})", text)
    )


def _are_alike(one: str, other: str) -> bool:
    one_unnumbered, other_unnumbered = (re.sub(r"\d+", "", name) for name in (one, other))
    return one_unnumbered == other_unnumbered or are_versions(one, other)


def versions_of(chunks: Sequence[ScoredChunk], sides: tuple[str, str]) -> dict[str, str]:
    """Return the document id of each compared year or version, or {} if one has no document.

    The names of the two documents differ by the year or version alone.
    """
    if not all(any(map(str.isdigit, side)) for side in sides):
        return {}
    titles = [(c.document_id, f"{c.title}\n{c.document_id}") for c in chunks]
    one, other = ([id_ for id_, title in titles if _holds(title, side)] for side in sides)
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


def as_table(rows: Sequence[ComparisonRow]) -> str:
    """Return a Markdown table of the rows, with escaped bars in the cells."""
    cells = [(r.document_id.replace("|", "\\|"), r.text.replace("|", "\\|")) for r in rows]
    lines = [f"| {document} | {text} |" for document, text in cells]
    return "\n".join(["| compared | what it says |", "| --- | --- |", *lines])
