"""Answer with verbatim sentences, in a form that fits the kind of the query."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rag_pipeline.answering.amendments import change_of
from rag_pipeline.answering.comparisons import (
    MAX_CONTEXTS,
    Comparison,
    Search,
    compared_versions,
    versions_of,
)
from rag_pipeline.answering.computing import asks_for_extreme
from rag_pipeline.answering.extractive import NO_ANSWER, Ranked, as_answer, quoted, rank_sentences
from rag_pipeline.answering.facts import kinds_asked, verdict
from rag_pipeline.answering.halves import halves
from rag_pipeline.answering.intent import detect, sides_of
from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.naming import is_of_other_name, of_named
from rag_pipeline.answering.reading import Reader
from rag_pipeline.answering.sides import lacking
from rag_pipeline.answering.structured import structured_answer
from rag_pipeline.answering.tables import DocumentOf, with_tables
from rag_pipeline.config import AnswerSettings, ExtractiveAnswers
from rag_pipeline.config.calibration import DEFAULT, Calibration
from rag_pipeline.datamodels import Answer, Citation, Kind, ScoredChunk, SearchResult

NEUTRAL_QUERIES = ("definitions", "glossary")
"""Further queries for a definition without an answer. Often one section explains all terms."""
_CHANGED_ROWS = 3
"""Number of first rows of an answer that another document may change."""
_TABLES = 3
"""Number of first passages whose tables may lack a row."""
_OF_BOTH = 3
"""Least number of quotes of two rows and the names of their columns."""
_FURTHER = 4
"""Factor by which `contexts` grows if the first passages hardly match a query."""
_LISTED = 3
"""Factor by which `contexts` grows for lists and comparisons."""
_LIMITS: dict[Kind, dict[str, int]] = {
    "comprehensive": {"sentences": 12},
    "comparison": {"sentences": 2},
}
_OF_OTHER_NAME = 0.5
"""The highest confidence of an answer whose first quote is of another name than the query's.

On six mixed folders, a third of these answers are right.
"""


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
        return max(MAX_CONTEXTS, first)
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
    search: Search | None = None,
) -> list[Answer]:
    """Return one answer of quotes per query.

    Table rows, a whole list or a summary answer if they fit better (see `structured_answer`).
    Otherwise, a clause lookup, a definition or a general question gets up to `sentences` sentences.
    "Yes" or "No" precedes them if it is certain (see `verdict`). A comprehensive question gets up
    to 12 sentences. A comparison gets a table (see `Comparison`). `search` finds its other side.
    """
    tools = reader, calibration, document_of
    return [_formed(one, settings, *tools, search, True) for one in found]


def _formed(
    one: SearchResult,
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration,
    document_of: DocumentOf,
    search: Search | None,
    splits: bool,
) -> Answer:
    """Return the answer of one query. `splits` says whether its sides or parts have own answers."""
    one = replace(one, chunks=of_named(one.query, one.chunks, document_of))
    limits = {"contexts": MAX_CONTEXTS, "sentences": settings.sentences}
    form = settings.model_copy(update=limits | _LIMITS.get(one.kind, {}))
    ranked = _of_named_sheets(one, rank_sentences(one, form, reader, calibration), document_of)
    split = halves(one.query) if splits else None
    sides = (split and split.are_sides) or (splits and compared_versions(one) is not None)
    names = sides_of(one.query) or ("", "")
    of_years = all(any(map(str.isdigit, n)) for n in names) and not versions_of(one.chunks, names)
    structured = structured_answer(one, ranked, document_of)
    compares = one.kind == "comparison" and not asks_for_extreme(one.query)
    if structured and (
        (compares and ((sides and not of_years) or structured.text.startswith("“")))
        or (sides and len(structured.citations) < _OF_BOTH)
    ):
        structured = None  # nothing was computed, or it is not about both sides
    if structured and (changing := _change_of_rows(one, structured, ranked)):
        structured, ranked = None, changing

    def ask(question: str, chunks: Sequence[ScoredChunk]) -> Answer:
        kind = detect(question).kind
        kind = "general" if kind == "comparison" else kind
        asked = replace(one, query=question, search_text=question, chunks=chunks, kind=kind)
        surely = settings.model_copy(update={"confidence": 0.0})
        return _formed(asked, surely, reader, calibration, document_of, None, False)

    if structured:
        answer = structured
    elif one.kind == "comparison" or sides:
        comparison = Comparison(
            settings=form,
            reader=reader,
            calibration=calibration,
            ask=ask,
            search=search,
        )
        return comparison.answer(one, ranked)
    else:
        answer = _quotes(one, form, ranked)
    if split and answer.answered and not sides:
        second = split.questions[1]
        answer = _with_part(answer, ask(second, search(second) if search else one.chunks))
    return answer if one.kind == "comparison" else _doubted(one, answer, document_of)


def _with_part(answer: Answer, part: Answer) -> Answer:
    """Add the first quote of the answer to a question's second part."""
    for cited in part.citations[:1]:
        if not any(cited.text in own.text or own.text in cited.text for own in answer.citations):
            own = replace(cited, number=len(answer.citations) + 1)
            text = f"{answer.text}\n{quoted(own)}"
            return replace(answer, text=text, citations=(*answer.citations, own))
    return answer


def _doubted(found: SearchResult, answer: Answer, document_of: DocumentOf) -> Answer:
    """Lower the confidence of an answer whose first quote is of another name than the query's."""
    for cited in answer.citations[:1]:
        chunk = next(c for c in found.chunks if c.chunk_id == cited.chunk_id)
        if is_of_other_name(found.query, chunk, found.chunks, document_of):
            return replace(answer, confidence=min(answer.confidence or 0.0, _OF_OTHER_NAME))
    return answer


def _of_named_sheets(found: SearchResult, ranked: Ranked, document_of: DocumentOf) -> Ranked:
    """Leave out all sentences if the sheet that a query names lacks the row (see `lacking`).

    The best sentence may have the words of the row, unless it is a row of this document.
    """
    for first in ranked.sentences[:1]:
        for chunk, document in with_tables(found.chunks[:_TABLES], document_of):
            words = lacking(found.query, document)
            is_row = first.is_row and first.chunk.document_id == chunk.document_id
            if words and (
                is_row or not words <= Words(found.query, [first.text]).in_text(first.text)
            ):
                return ranked._replace(sentences=(), scores=())
    return ranked


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
    lines = [quoted(citation) for citation in answer.citations]
    if found.kind == "comprehensive":
        return replace(answer, text="\n".join(f"- {line}" for line in lines))
    said, text = verdict(found.search_text, answer.citations[0].text), "\n".join(lines)
    return replace(answer, text=f"{said}: {text}" if said else text)


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
