"""Answer with verbatim sentences, in a form that fits the kind of the query."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rag_pipeline.answering.confidence import DEFAULT, Calibration
from rag_pipeline.answering.extractive import Sentence, as_answer, choose
from rag_pipeline.answering.facts import kinds_asked, states, verdict
from rag_pipeline.answering.reading import Reader
from rag_pipeline.config import AnswerSettings, ExtractiveAnswers
from rag_pipeline.datamodels import (
    Answer,
    Citation,
    ComparisonRow,
    Kind,
    ScoredChunk,
    SearchResult,
)

NO_ANSWER = "Nothing in the documents answers this."
NEUTRAL_QUERIES = ("definitions", "glossary")
"""Further queries for a definition without an answer. Often one section explains all terms."""
_MAX_CONTEXTS = 50
_COMPARED_DOCUMENTS = 6
_FEWEST_ROWS = 2
"""Least number of rows of a table after empty rows at its end are dropped."""
_COMPARED_PASSAGES = 8
_FURTHER = 4
"""Factor by which `contexts` grows if the first passages hardly match a query."""
_LISTED = 3
"""Factor by which `contexts` grows for lists and comparisons."""
_LEAST_MET = 0.78
"""Least late interaction of a sentence in a table, as a share of the best sentence's value.

Chosen on comparisons of the sample's documents.
"""
_LIMITS: dict[Kind, dict[str, int]] = {
    "comprehensive": {"sentences": 12},
    "comparison": {"sentences": 2},
}


def contexts_of(query: str, kind: Kind, settings: AnswerSettings) -> int:
    """Return the number of ranked chunks that an answer is made from.

    Extractive lists and comparisons use 3 times `contexts`. Extractive answers with a kind of fact,
    such as a duration, use 1.6 times `contexts`. There, more passages help, because the kind
    excludes similar sentences.
    """
    if isinstance(settings, ExtractiveAnswers):
        if kind in ("comprehensive", "comparison"):
            return settings.contexts * _LISTED
        if kinds_asked(query):
            return settings.contexts * 8 // 5
    return settings.contexts


def most_contexts_of(query: str, kind: Kind, settings: AnswerSettings) -> int:
    """Return the number of ranked chunks to read if the first chunks hardly match the query."""
    first = contexts_of(query, kind, settings)
    if not isinstance(settings, ExtractiveAnswers) or kind in ("comprehensive", "comparison"):
        return first
    return max(settings.contexts * _FURTHER, first)


def distinct(chunks: Sequence[ScoredChunk]) -> list[ScoredChunk]:
    """Return the chunks without exact repetitions of a better-ranked chunk of the document."""
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
) -> list[Answer]:
    """Return one answer of quotes per query.

    A clause lookup, a definition or a general question gets up to `sentences` sentences. "Yes" or
    "No" precedes them if it is certain (see `verdict`). A comprehensive question gets up to 12
    sentences. A comparison gets a table with one row per document. A row is empty without a
    sentence that fits the query (see `_to_the_point`).
    """
    made = []
    for one in found:
        limits = {"contexts": _MAX_CONTEXTS, "sentences": settings.sentences}
        form = settings.model_copy(update=limits | _LIMITS.get(one.kind, {}))
        answer = _comparison if one.kind == "comparison" else _quotes
        made.append(answer(one, form, reader, calibration))
    return made


def _quotes(
    found: SearchResult, settings: ExtractiveAnswers, reader: Reader, calibration: Calibration
) -> Answer:
    answer = as_answer(*choose(found, settings, reader, calibration))
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
    found: SearchResult, settings: ExtractiveAnswers, reader: Reader, calibration: Calibration
) -> Answer:
    chunks_of: dict[str, list[ScoredChunk]] = {}
    for chunk in found.chunks:
        chunks_of.setdefault(chunk.document_id, []).append(chunk)
    documents = list(chunks_of)[:_COMPARED_DOCUMENTS]
    shown = (chunks_of[document_id][:_COMPARED_PASSAGES] for document_id in documents)
    chosen = [choose(replace(found, chunks=own), settings, reader, calibration) for own in shown]
    citations: list[Citation] = []
    rows = []
    kept = _to_the_point(found.search_text, [sentences for _, sentences in chosen])
    for document_id, sentences in zip(documents, kept, strict=True):
        own = as_answer(0.0, sentences).citations
        own = tuple(replace(c, number=len(citations) + n) for n, c in enumerate(own, 1))
        citations += own
        said = " ".join(map(_quote, own))
        rows.append(ComparisonRow(document_id, said or "—", own[0].number if own else None))
    while len(rows) > _FEWEST_ROWS and rows[-1].number is None:
        rows.pop()
    best = max((confidence for confidence, _ in chosen), default=0.0)
    if not citations:
        return Answer(NO_ANSWER, answered=False, confidence=best)
    return Answer(
        as_table(rows),
        answered=True,
        citations=tuple(citations),
        confidence=best,
        table=tuple(rows),
    )


def _to_the_point(search_text: str, chosen: Sequence[Sequence[Sentence]]) -> list[list[Sentence]]:
    """Return the sentences with nearly the late interaction of the best sentence.

    If a sentence states a fact of the kind that the query asks for, only such sentences are kept.
    """
    best = max((s.late for sentences in chosen for s in sentences), default=0.0)
    near = [[s for s in own if s.late >= _LEAST_MET * best] for own in chosen]
    kinds = kinds_asked(search_text)
    stating = [[s for s in own if states(s.text, kinds)] for own in near]
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

    A wrong citation stays with `supports` False, and `problems` names it.
    """
    checked = tuple(replace(c, supports=c.supports and verify(c)) for c in answer.citations)
    wrong = [f"[{c.number}] is not in {c.document_id}" for c in checked if not c.supports]
    return replace(answer, citations=checked, problems=(*answer.problems, *wrong))
