"""What a model has written -> an answer whose quotes and citations are held against passages."""

import re
from collections.abc import Sequence
from dataclasses import replace

from rag_pipeline.answering.forms import as_table, or_none
from rag_pipeline.answering.llm import read_answer
from rag_pipeline.datamodels import Answer, Citation, ComparisonRow, Formed, ScoredChunk

_SUPPORT = 0.5
"""The share of a sentence's content words that the passages it cites must hold."""
_SHOWN = 60
_TYPEWRITTEN = str.maketrans(
    {**dict.fromkeys("‘’‚‛", "'"), **dict.fromkeys("“”„‟", '"'), **dict.fromkeys("–—‐‑", "-")}
)
"""Models write these characters the other way; each is one character, so offsets stay."""


def cited_answer(text: str, chunks: Sequence[ScoredChunk]) -> Formed:
    """Return a text with its citations, as `read_answer` checks them."""
    return Formed(or_none(read_answer(text, chunks, _SUPPORT)))


def listing_answer(items: Sequence[str], chunks: Sequence[ScoredChunk]) -> Formed:
    """Return a list of cited items."""
    read = [read_answer(item, chunks, _SUPPORT) for item in items]
    made = [part for part in read if part.answered]
    text = "\n".join(f"- {' '.join(part.text.split())}" for part in made)
    return Formed(or_none(_merged(text, made)))


def comparison_answer(rows: Sequence[tuple[str, str]], chunks: Sequence[ScoredChunk]) -> Formed:
    """Return a table with a row for each (document, what it says).

    A row about a document that no passage is of, or that cites another document's passage, is
    a problem.
    """
    known = {chunk.document_id for chunk in chunks}
    parts: list[Answer] = []
    table: list[ComparisonRow] = []
    for document_id, says in rows:
        part = read_answer(" ".join(says.split()), chunks, _SUPPORT)
        if not part.answered:
            continue
        cited = {c.document_id for c in part.citations}
        if document_id not in known and len(cited) == 1:
            (document_id,) = cited  # it gave a title, or a part of the name
        if document_id not in known:
            part = _with_problem(part, f"no passage is of {document_id[:_SHOWN]!r}")
        elif cited - {document_id}:
            wrong = ", ".join(sorted(cited - {document_id}))
            part = _with_problem(part, f"the row of {document_id} cites {wrong}")
        parts.append(part)
        number = part.citations[0].number if part.citations else None
        table.append(ComparisonRow(document_id, part.text, number))
    made = or_none(_merged(as_table(table) if table else "", parts))
    return Formed(made, tuple(table))


def clause_answer(
    lead: str, quotes: Sequence[tuple[int, str]], chunks: Sequence[ScoredChunk]
) -> Formed:
    """Return a sentence followed by quotes, each in the exact wording of its passage.

    `quotes` are (passage number, text). One that stands in another passage is given that number;
    one that stands in none is flagged. A quoted passage is cited by the span of its quotes.
    """
    answer = read_answer(lead, chunks, _SUPPORT)
    spans: dict[int, tuple[int, int]] = {}
    lines: list[str] = []
    problems: list[str] = []
    for claimed, text in quotes:
        if not re.search(r"\w", text):
            continue
        at = {n: locate(text, chunk.text) for n, chunk in enumerate(chunks, 1)}
        standing = [n for n, span in at.items() if span]
        number = claimed if claimed in standing else next(iter(standing), 0)
        span = at.get(number)
        if span is None:
            shown = " ".join(text.split())
            problems.append(f"not the wording of [{claimed}]: “{shown[:_SHOWN]}”")
            lines.append(f"“{shown}” [{claimed}]")
            continue
        start, end = span
        known = spans.get(number, (start, end))
        spans[number] = (min(start, known[0]), max(end, known[1]))
        line = f"“{' '.join(chunks[number - 1].text[start:end].split())}” [{number}]"
        if line not in lines:
            lines.append(line)
    if not lines:
        if answer.answered:
            answer = _with_problem(answer, "quotes nothing")
        return Formed(or_none(answer))
    of_lead = {c.number: c for c in answer.citations} if answer.answered else {}
    citations = dict(of_lead)
    for number, (start, end) in spans.items():
        chunk = chunks[number - 1]
        citations[number] = Citation(
            number,
            chunk.chunk_id,
            chunk.document_id,
            chunk.start + start,
            chunk.start + end,
            chunk.text[start:end],
            number not in of_lead or of_lead[number].supports,
        )
    text = "\n".join([answer.text, *lines] if answer.answered else lines)
    ordered = tuple(citation for _, citation in sorted(citations.items()))
    return Formed(Answer(text, True, ordered, None, (*answer.problems, *problems)))


def locate(quote: str, text: str) -> tuple[int, int] | None:
    """Return where a quote stands in a text, whatever the white space and the shape of quotes."""
    words = quote.translate(_TYPEWRITTEN).strip().strip("\"'").split()
    if not words:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text.translate(_TYPEWRITTEN))
    return found.span() if found else None


def _merged(text: str, parts: Sequence[Answer]) -> Answer:
    """Return one answer of several; a citation supports where it does so in all of them."""
    citations: dict[int, Citation] = {}
    for citation in (c for part in parts for c in part.citations):
        known = citations.get(citation.number, citation)
        citations[citation.number] = replace(
            citation, supports=citation.supports and known.supports
        )
    problems = tuple(problem for part in parts for problem in part.problems)
    ordered = tuple(citation for _, citation in sorted(citations.items()))
    return Answer(text, bool(text), ordered, None, problems)


def _with_problem(answer: Answer, problem: str) -> Answer:
    return replace(answer, problems=(*answer.problems, problem))
