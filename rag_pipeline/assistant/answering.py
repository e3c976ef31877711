"""Passages -> an answer in the form that the question's kind asks for, by verbatim sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rag_pipeline.answering import SentenceEmbed, extract_answers
from rag_pipeline.assistant.intent import Kind
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import Answer, Citation, ScoredChunk

NO_ANSWER = "Nothing in the documents answers this."
_LISTED = 12
_COMPARED_FILES = 6


@dataclass(frozen=True, slots=True)
class Row:
    """One document's line of a comparison: what it says, and where (None where it says nothing)."""

    document_id: str
    text: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Formed:
    """An answer with its comparison table, if it is one."""

    answer: Answer
    table: tuple[Row, ...] = ()


def form_answer(
    query: str,
    kind: Kind,
    chunks: Sequence[ScoredChunk],
    embed: SentenceEmbed,
    confidence: float = 0.3,
) -> Formed:
    """Answer from ranked chunks with quotes alone.

    A clause lookup, a definition or a general question gets up to 3 sentences; a comprehensive
    one up to 12 from all chunks; a comparison one row a document, from its own chunks.
    """
    if kind == "comparison":
        return _compare(query, chunks, embed, confidence)
    listing = kind == "comprehensive"
    settings = ExtractiveAnswers(
        contexts=min(len(chunks), 50) or 1,
        sentences=_LISTED if listing else 3,
        confidence=confidence,
    )
    (answer,) = extract_answers([(query, chunks)], settings, embed)
    if not answer.answered:
        return Formed(replace(answer, text=NO_ANSWER))
    return Formed(replace(answer, text=_quoted(answer.citations, listing)))


def _quoted(citations: Sequence[Citation], listing: bool) -> str:
    """Return each sentence in quotes with its number, as a list where several were asked for."""
    lines = [f"“{' '.join(c.text.split())}” [{c.number}]" for c in citations]
    return "\n".join(f"- {line}" for line in lines) if listing else "\n".join(lines)


def _compare(
    query: str, chunks: Sequence[ScoredChunk], embed: SentenceEmbed, confidence: float
) -> Formed:
    by_document: dict[str, list[ScoredChunk]] = {}
    for chunk in chunks:
        by_document.setdefault(chunk.document_id, []).append(chunk)
    compared = dict(list(by_document.items())[:_COMPARED_FILES])
    settings = ExtractiveAnswers(contexts=8, sentences=2, confidence=confidence)
    made = extract_answers([(query, own) for own in compared.values()], settings, embed)
    citations: list[Citation] = []
    rows = []
    for document_id, answer in zip(compared, made, strict=True):
        numbered = [
            replace(c, number=len(citations) + n) for n, c in enumerate(answer.citations, 1)
        ]
        citations += numbered
        said = " ".join(f"“{' '.join(c.text.split())}” [{c.number}]" for c in numbered)
        rows.append(Row(document_id, said or "—", numbered[0].number if numbered else None))
    best = max((a.confidence or 0.0 for a in made), default=0.0)
    if not citations:
        return Formed(Answer(NO_ANSWER, answered=False, confidence=best))
    return Formed(Answer(as_table(rows), True, tuple(citations), best), tuple(rows))


def as_table(rows: Sequence[Row]) -> str:
    """Return a Markdown table; bars inside of cells are escaped."""
    cells = [(r.document_id.replace("|", "\\|"), r.text.replace("|", "\\|")) for r in rows]
    lines = [f"| {document} | {text} |" for document, text in cells]
    return "\n".join(["| document | what it says |", "| --- | --- |", *lines])


Verify = Callable[[Citation], bool]


def verified(answer: Answer, verify: Verify) -> Answer:
    """Return the answer with each citation held against its document's text.

    A citation that its document does not bear out stays, flagged, and is named as a problem.
    """
    checked = tuple(replace(c, supports=c.supports and verify(c)) for c in answer.citations)
    wrong = [f"[{c.number}] is not in {c.document_id}" for c in checked if not c.supports]
    return replace(answer, citations=checked, problems=(*answer.problems, *wrong))
