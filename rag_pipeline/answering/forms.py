"""Answer with verbatim sentences, in a form that fits the kind of the query."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from rapidfuzz import fuzz

from rag_pipeline.answering.amendments import change_of
from rag_pipeline.answering.extractive import Ranked, as_answer, choose, rank_sentences
from rag_pipeline.answering.facts import kinds_asked, states, verdict
from rag_pipeline.answering.intent import sides_of, uncompared
from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.naming import about, of_named
from rag_pipeline.answering.reading import Reader
from rag_pipeline.answering.sentences import Sentence
from rag_pipeline.answering.structured import structured_answer
from rag_pipeline.answering.tables import DocumentOf
from rag_pipeline.config import AnswerSettings, ExtractiveAnswers
from rag_pipeline.config.calibration import DEFAULT, Calibration
from rag_pipeline.datamodels import Answer, Citation, ComparisonRow, Kind, ScoredChunk, SearchResult
from rag_pipeline.search.standing import are_versions, in_force

NO_ANSWER = "No answer was found in the documents."
NEUTRAL_QUERIES = ("definitions", "glossary")
"""Further queries for a definition without an answer. Often one section explains all terms."""
_MAX_CONTEXTS = 50
_COMPARED_DOCUMENTS = 6
_FEWEST_ROWS = 2
"""Least number of rows of a table after empty rows at its end are dropped."""
_COMPARED_PASSAGES = 8
_QUOTED_A_SIDE = 4
"""Maximum number of quotes in a row of a comparison."""
_CHANGED_ROWS = 3
"""Number of first rows of an answer that another document may change."""
_FURTHER = 4
"""Factor by which `contexts` grows if the first passages hardly match a query."""
_LISTED = 3
"""Factor by which `contexts` grows for lists and comparisons."""
_LEAST_MET = 0.78
"""Least match of a sentence in a table, as a share of the best sentence's value.

Chosen on comparisons of the sample's documents.
"""
_VERSION = re.compile(r"(?i:(?<![^\W_])v(?:er(?:sion)?)?)[ ._-]?(?P<number>\d{1,3})(?!\d)")
_LIMITS: dict[Kind, dict[str, int]] = {
    "comprehensive": {"sentences": 12},
    "comparison": {"sentences": 2},
}


def contexts_of(query: str, kind: Kind, settings: AnswerSettings) -> int:
    """Return the number of ranked chunks that an answer is made from.

    Extractive lists and comparisons use 3 times `contexts`. If the query asks for a kind of fact,
    such as a duration, extractive answers use 1.6 times `contexts`. More passages help such
    queries, because similar sentences that state no such fact score lower.
    """
    if isinstance(settings, ExtractiveAnswers):
        if kind in ("comprehensive", "comparison"):
            return settings.contexts * _LISTED
        if kinds_asked(query):
            return settings.contexts * 8 // 5
    return settings.contexts


def most_contexts_of(query: str, kind: Kind, settings: AnswerSettings) -> int:
    """Return the number of ranked chunks to read if the first chunks hardly match the query.

    A comparison of two names reads at least 50, because the first may all be about one name.
    """
    first = contexts_of(query, kind, settings)
    if not isinstance(settings, ExtractiveAnswers):
        return first
    if kind == "comparison" and sides_of(query):
        return max(_MAX_CONTEXTS, first)
    if kind in ("comprehensive", "comparison"):
        return first
    return max(settings.contexts * _FURTHER, first)


def distinct(chunks: Sequence[ScoredChunk]) -> list[ScoredChunk]:
    """Return the chunks, except those that repeat a better-ranked chunk of their document."""
    kept: dict[tuple[str, ...], ScoredChunk] = {}
    for chunk in chunks:
        wording = " ".join(chunk.text.split()).casefold()
        kept.setdefault((chunk.corpus, chunk.document_id, wording), chunk)
    return list(kept.values())


def form_answers(
    found: Sequence[SearchResult],
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration = DEFAULT,
    document_of: DocumentOf = lambda chunk: None,
) -> list[Answer]:
    """Return one answer of quotes per query.

    Table rows, a whole list or a summary answer if they fit better (see `structured_answer`).
    Otherwise, a clause lookup, a definition or a general question gets up to `sentences` sentences.
    "Yes" or "No" precedes them if it is certain (see `verdict`). A comprehensive question gets up
    to 12 sentences. A comparison gets a table with one row per document or compared name. A row is
    empty if no sentence fits the query (see `_to_the_point`).
    """
    made = []
    for one in found:
        one = replace(one, chunks=of_named(one.query, one.chunks, document_of))
        limits = {"contexts": _MAX_CONTEXTS, "sentences": settings.sentences}
        form = settings.model_copy(update=limits | _LIMITS.get(one.kind, {}))
        ranked = rank_sentences(one, form, reader, calibration)
        sides = sides_of(one.query) if one.kind == "comparison" else None
        of_years = sides is not None and all(any(map(str.isdigit, side)) for side in sides)
        by_rows = not sides or (of_years and not _versions(one.chunks, sides))
        structured = structured_answer(one, ranked, document_of) if by_rows else None
        if structured and of_years and structured.text.startswith("“"):
            structured = None  # nothing was computed from the rows of both years
        if structured and (changing := _change_of_rows(one, structured, ranked)):
            structured, ranked = None, changing
        if structured:
            made.append(structured)
        elif sides and (
            answer := _sides(one, sides, ranked.confidence, form, reader, calibration, document_of)
        ):
            made.append(answer)
        elif one.kind == "comparison":
            made.append(_comparison(one, form, reader, calibration))
        else:
            made.append(_quotes(one, form, ranked))
    return made


def _change_of_rows(found: SearchResult, answer: Answer, ranked: Ranked) -> Ranked | None:
    """Return the sentences with the one first that changes a row or item of an answer, or None."""
    chunk_of = {chunk.chunk_id: chunk for chunk in found.chunks}
    quoted = [(s.chunk, s.start - s.chunk.start, s.text) for s in ranked.sentences]
    for cited in answer.citations[:_CHANGED_ROWS]:
        chunk = replace(chunk_of[cited.chunk_id], start=cited.start, end=cited.end, text=cited.text)
        place = change_of(found.query, [(chunk, 0, cited.text), *quoted], found.chunks)
        if place is not None:
            sentences = [ranked.sentences[place - 1], *ranked.sentences]
            return ranked._replace(sentences=sentences, scores=[ranked.scores[0], *ranked.scores])
    return None


def _quotes(found: SearchResult, settings: ExtractiveAnswers, ranked: Ranked) -> Answer:
    if found.token_weights is None and ranked.sentences:
        ranked = ranked.paragraph()
    answer = as_answer(ranked.confidence, ranked.first(settings.sentences))
    if not answer.answered:
        return replace(answer, text=NO_ANSWER)
    lines = [_quote(citation) for citation in answer.citations]
    if found.kind == "comprehensive":
        return replace(answer, text="\n".join(f"- {line}" for line in lines))
    said, text = verdict(found.search_text, answer.citations[0].text), "\n".join(lines)
    return replace(answer, text=f"{said}: {text}" if said else text)


def _quote(citation: Citation) -> str:
    return f"“{' '.join(citation.text.split())}” [{citation.number}]"


def _comparison(
    found: SearchResult,
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration,
) -> Answer:
    chunks_of: dict[str, list[ScoredChunk]] = {}
    for chunk in in_force(found.query, found.chunks[: found.contexts or None]):
        chunks_of.setdefault(chunk.document_id, []).append(chunk)
    documents = list(chunks_of)[:_COMPARED_DOCUMENTS]
    shown = (chunks_of[document_id][:_COMPARED_PASSAGES] for document_id in documents)
    chosen = [choose(replace(found, chunks=own), settings, reader, calibration) for own in shown]
    kept = _to_the_point(found.search_text, [sentences for _, sentences in chosen])
    best = max((confidence for confidence, _ in chosen), default=0.0)
    quoted = [as_answer(0.0, sentences).citations for sentences in kept]
    return _compared(list(zip(documents, quoted, strict=True)), best)


def _sides(
    found: SearchResult,
    sides: tuple[str, str],
    best: float,
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration,
    document_of: DocumentOf,
) -> Answer | None:
    """Return an answer with one row per compared name, made from passages about that name only.

    A name without passages has an empty row. Return None if both rows are empty or the confidence
    is too low. `best` is the confidence by all passages. The passages of a name may raise it.
    """
    surely = settings.model_copy(update={"confidence": 0.0, "contexts": _MAX_CONTEXTS})
    names: list[str] = []
    quoted: list[Sequence[Citation]] = []
    plain: list[Sequence[Sentence]] = []
    versions = _versions(found.chunks, sides)
    titled = [[c for c in found.chunks if _titles(c, side)] for side in sides]
    confidences: list[float] = []
    are_alike = True  # whether the sentences of both names were compared with the same words
    for (side, other), named in zip((sides, sides[::-1]), titled, strict=True):
        own = [c for c in found.chunks if c.document_id == versions.get(side)]
        own = own or (named if all(titled) else [c for c in found.chunks if _has_side(c, side)])
        own.sort(key=lambda c: _has_side(c, other))  # passages about one name alone come first
        first = [c for c in own if c.document_id == own[0].document_id][:_COMPARED_PASSAGES]
        asked = _side_query(found.query, other)
        one = replace(found, query=asked, search_text=asked, chunks=first)
        # The names, and words such as "higher", outweigh the words that are compared.
        unnamed = uncompared(_side_query(asked, side)) or asked
        plainly = replace(one, query=unnamed, search_text=unnamed)
        ranked = rank_sentences(plainly, surely, reader, calibration)
        if not ranked.sentences:  # the rest of the question alone is unlike the passages
            ranked = rank_sentences(one, surely, reader, calibration)
            are_alike = False
        confidences.append(ranked.confidence)
        if not all(titled):  # perhaps a document has a section for each name
            scores = zip(ranked.sentences, ranked.scores, strict=True)
            below = [pair for pair in scores if _has_words(pair[0].heading, side)]
            if below:
                own_sentences, own_scores = zip(*below, strict=True)
                ranked = ranked._replace(sentences=own_sentences, scores=own_scores)
        structured = structured_answer(one, ranked, document_of)
        names.append(first[0].document_id if first else side)
        quoted.append(structured.citations if structured else ())
        plain.append([] if structured else ranked.first(1))
    if versions:
        of_versions = _of_versions(found, versions, sides, surely, reader, calibration)
        plain = [[] if q else s for s, q in zip(of_versions, quoted, strict=True)]
    kept = _to_the_point(found.search_text, plain) if are_alike and not versions else plain
    rows = [
        (n, q or as_answer(0.0, k).citations) for n, q, k in zip(names, quoted, kept, strict=True)
    ]
    least = calibration.least if settings.confidence is None else settings.confidence
    best = max(best, *confidences)
    if best < least or not any(citations for _, citations in rows):
        return None
    return _compared(rows, best)


def _of_versions(
    found: SearchResult,
    versions: Mapping[str, str],
    sides: tuple[str, str],
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration,
) -> list[list[Sentence]]:
    """Return for each version the sentence about the compared thing, or [].

    One version has the best sentence. The other version's sentence is the most similar one. Words
    of the documents' names are not searched for, because they tell nothing about a sentence.
    """
    both = [c for c in found.chunks if c.document_id in versions.values()]
    names = "\n".join(f"{c.title}\n{c.document_id}" for c in both)
    query = uncompared(found.query) or found.query
    asked = sorted(Words(query, [query]).asked, key=query.casefold().find)
    text = " ".join(w for w in asked if not _has_words(names, w)) or query
    one = replace(found, search_text=text, chunks=both)
    sentences = rank_sentences(one, settings, reader, calibration).sentences
    best = next(iter(sentences), None)
    similar = max(
        (s for s in sentences if best and s.chunk.document_id != best.chunk.document_id),
        key=lambda s: fuzz.ratio(s.text, best.text if best else ""),
        default=None,
    )
    return [
        [s for s in (best, similar) if s and s.chunk.document_id == versions[side]]
        for side in sides
    ]


def _compared(sides: Sequence[tuple[str, Sequence[Citation]]], confidence: float) -> Answer:
    citations: list[Citation] = []
    rows = []
    for name, cited in sides:
        most = cited[:_QUOTED_A_SIDE]
        own = [replace(c, number=len(citations) + n) for n, c in enumerate(most, 1)]
        citations += own
        said = " ".join(map(_quote, own))
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
    return _has_words(about(chunk), side)


def _titles(chunk: ScoredChunk, side: str) -> bool:
    name = f"{chunk.title}\n{chunk.document_id}"
    if version := _VERSION.fullmatch(side):
        return any(version["number"] == one["number"] for one in _VERSION.finditer(name))
    return _has_words(name, side)


def _versions(chunks: Sequence[ScoredChunk], sides: tuple[str, str]) -> dict[str, str]:
    """Return the document id of each compared year or version, or {} if one has no document.

    The names of the two documents differ by the year or version alone.
    """
    if not all(any(map(str.isdigit, side)) for side in sides):
        return {}
    one, other = ([c.document_id for c in chunks if _titles(c, side)] for side in sides)
    pairs = ((a, b) for a, b in product(one, other) if a != b and are_versions(a, b))
    return dict(zip(sides, next(pairs, ()), strict=False))


def _has_words(text: str, side: str) -> bool:
    words = Words(side, [text])
    return bool(words.asked) and words.in_text(text) == words.asked


def _side_query(query: str, other: str) -> str:
    """Return a comparing query without the other name."""
    return " ".join(re.sub(rf"\b{re.escape(other)}\b", " ", query).split())


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
    return "\n".join(["| document | what it says |", "| --- | --- |", *lines])


def or_none(answer: Answer) -> Answer:
    """Return the answer, or `NO_ANSWER` if nothing is answered."""
    return answer if answer.answered else Answer(NO_ANSWER, answered=False)


def verified(answer: Answer, verify: Callable[[Citation], bool]) -> Answer:
    """Return the answer with each citation checked by `verify`.

    A wrong citation stays in the answer. Its `supports` becomes False, and `problems` names it.
    """
    wrong = [c for c in answer.citations if not verify(c)]
    checked = tuple(replace(c, supports=c.supports and c not in wrong) for c in answer.citations)
    problems = [f"[{c.number}] is not in {c.document_id}" for c in wrong]
    return replace(answer, citations=checked, problems=(*answer.problems, *problems))
