"""Read answers from a model's text, and check their quotes and citations against passages."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from rag_pipeline.answering.citing import cite
from rag_pipeline.answering.comparisons import as_table
from rag_pipeline.answering.forms import or_none
from rag_pipeline.answering.support import judge
from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.datamodels import Answer, Citation, ComparisonRow, ScoredChunk

CITING = (
    "End every sentence with the numbers of the passages it rests on in square brackets, such as "
    "[1] or [2][3]. Keep names, amounts, dates and periods as the passages put them."
)
"""Instruction that tells a model how to cite."""
_SUPPORT = 0.5
"""Least share of a sentence's content words that its cited passages must contain."""
_SHOWN = 60
_NO_ANSWER = re.compile(r"\W*no answer\W*", re.IGNORECASE)
_CITED = re.compile(r"\s*\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")
_MOVED_STOP = re.compile(r"([.!?])((?:\s*\[\d[\d\s,]*\])+)")
_TYPEWRITTEN = str.maketrans(
    {**dict.fromkeys("‘’‚‛", "'"), **dict.fromkeys("“”„‟", '"'), **dict.fromkeys("–—‐‑", "-")}
)
"""Replaces typographic characters, which models write as ASCII. Offsets do not change."""


def read_answer(text: str, chunks: Sequence[ScoredChunk], support: float) -> Answer:
    """Return a model's text as an answer with checked citations.

    `problems` lists citations of unknown passages, and sentences that cite no known passage. It
    also lists sentences that their cited passages together contradict or do not support (see
    `judge`). `doubted` holds these sentences of both kinds as they are in the text.
    """
    if not text.strip() or _NO_ANSWER.fullmatch(text):
        return Answer(text.strip(), answered=False)
    # In "… years. [1]", the citation belongs to the sentence before it.
    text = _MOVED_STOP.sub(r"\2\1", text.strip())
    problems: list[str] = []
    doubted: list[str] = []
    verdicts: dict[int, bool] = {}
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        said = _CITED.sub("", sentence).strip()
        cited = (int(n) for group in _CITED.findall(sentence) for n in group.split(","))
        numbers = list(dict.fromkeys(cited))
        known = [n for n in numbers if 1 <= n <= len(chunks)]
        shown = said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…"
        problems += [
            f"[{n}] is cited and there are {len(chunks)} passages: {shown}"
            for n in numbers
            if n not in known
        ]
        if not re.search(r"\w", said):
            continue
        if not known:
            problems.append(f"cites nothing: {shown}")
            doubted.append(sentence)
            continue
        verdict = judge("\n".join(chunks[n - 1].text for n in known), said, support)
        if verdict != "supported":
            how = "contradicted" if verdict == "contradicted" else "not supported"
            problems.append(f"{how} by {''.join(f'[{n}]' for n in known)}: {shown}")
            doubted.append(sentence)
        for n in known:
            verdicts[n] = verdicts.get(n, True) and verdict == "supported"
    citations = tuple(cite(n, chunks[n - 1], supports=held) for n, held in sorted(verdicts.items()))
    return Answer(text, True, citations=citations, problems=tuple(problems), doubted=tuple(doubted))


def cited_answer(text: str, chunks: Sequence[ScoredChunk]) -> Answer:
    """Return the answer of `read_answer`, or `NO_ANSWER` if nothing is answered."""
    return or_none(read_answer(text, chunks, _SUPPORT))


def listing_answer(items: Sequence[str], chunks: Sequence[ScoredChunk]) -> Answer:
    """Return an answer as a Markdown list of cited items."""
    read = [read_answer(" ".join(item.split()), chunks, _SUPPORT) for item in items]
    made = [part for part in read if part.answered]
    text = "\n".join(f"- {part.text}" for part in made)
    return or_none(_merged(text, made))


def comparison_answer(rows: Sequence[tuple[str, str]], chunks: Sequence[ScoredChunk]) -> Answer:
    """Return an answer as a table with a row for each pair (document, statement).

    `problems` lists rows about documents without a passage, and citations of other documents.
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
            (document_id,) = cited  # the model gave a title or a part of the name
        if document_id not in known:
            part = _with_problem(part, f"no passage is of {document_id[:_SHOWN]!r}")
        elif cited - {document_id}:
            wrong = ", ".join(sorted(cited - {document_id}))
            part = _with_problem(part, f"the row of {document_id} cites {wrong}")
        parts.append(part)
        number = part.citations[0].number if part.citations else None
        table.append(ComparisonRow(document_id, part.text, number))
    made = or_none(_merged(as_table(table) if table else "", parts))
    return replace(made, table=tuple(table))


def clause_answer(
    lead: str, quotes: Sequence[tuple[int, str]], chunks: Sequence[ScoredChunk]
) -> Answer:
    """Return an answer that consists of the text `lead` and of quotes, each on its own line.

    `quotes` are pairs (passage number, text). A quote gets the exact wording of its passage. A
    wrong passage number is corrected. A quote that is in no passage becomes a problem. The citation
    of a passage is the span of all its quotes.
    """
    answer = read_answer(lead, chunks, _SUPPORT)
    spans: dict[int, tuple[int, int]] = {}
    lines: list[str] = []
    problems: list[str] = []
    doubted = list(answer.doubted)
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
            doubted.append(lines[-1])
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
        return or_none(answer)
    of_lead = {c.number: c for c in answer.citations} if answer.answered else {}
    citations = dict(of_lead)
    for number, span in spans.items():
        citations[number] = cite(number, chunks[number - 1], span)
    text = "\n".join([answer.text, *lines] if answer.answered else lines)
    ordered = tuple(citation for _, citation in sorted(citations.items()))
    problems = [*answer.problems, *problems]
    return Answer(text, True, ordered, problems=tuple(problems), doubted=tuple(doubted))


def or_quotes(answer: Answer, quotes: Callable[[], Answer]) -> Answer:
    """Return the answer, or the quotes if the passages support no sentence of the answer."""
    rest = answer.text
    for sentence in answer.doubted:
        rest = rest.replace(sentence, "")
    # A citation may stand at a supported sentence and at a doubted one.
    if not answer.answered or any(c.supports for c in answer.citations) or _CITED.search(rest):
        return answer
    made = quotes()
    problem = "the passages support no sentence of the model's answer; it was replaced by quotes"
    return replace(made, problems=(*made.problems, problem))


def locate(quote: str, text: str) -> tuple[int, int] | None:
    """Return the span of a quote in a text, or None. White space and typography may differ."""
    words = quote.translate(_TYPEWRITTEN).strip().strip("\"'").split()
    if not words:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text.translate(_TYPEWRITTEN))
    return found.span() if found else None


def _merged(text: str, parts: Sequence[Answer]) -> Answer:
    citations: dict[int, Citation] = {}
    for citation in (c for part in parts for c in part.citations):
        known = citations.get(citation.number, citation)
        citations[citation.number] = replace(
            citation, supports=citation.supports and known.supports
        )
    problems = tuple(problem for part in parts for problem in part.problems)
    ordered = tuple(citation for _, citation in sorted(citations.items()))
    doubted = tuple(sentence for part in parts for sentence in part.doubted)
    return Answer(text, bool(text), ordered, problems=problems, doubted=doubted)


def _with_problem(answer: Answer, problem: str) -> Answer:
    return replace(answer, problems=(*answer.problems, problem))
