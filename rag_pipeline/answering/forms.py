"""Passages -> an answer in the form that the question's kind asks for, by verbatim sentences."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rag_pipeline.answering.confidence import DEFAULT, Calibration
from rag_pipeline.answering.extractive import Chosen, as_answer, choose
from rag_pipeline.answering.facts import kinds_asked, states
from rag_pipeline.answering.sentences import Reader
from rag_pipeline.answering.verdict import verdict
from rag_pipeline.config import AnswerSettings, ExtractiveAnswers
from rag_pipeline.datamodels import (
    Answer,
    Citation,
    ComparisonRow,
    Formed,
    Kind,
    ScoredChunk,
    ToAnswer,
)

NO_ANSWER = "Nothing in the documents answers this."
NEUTRAL_QUERIES = ("definitions", "glossary")
"""Searched for before giving up on a definition: a term may be explained apart from its use."""
_READ = 50
_COMPARED_FILES = 6
_FEWEST_ROWS = 2
"""Empty rows at the end of a table are left out as long as it keeps this many."""
_COMPARED_PASSAGES = 8
_FURTHER = 4
"""Where the first passages hardly meet a question, this many times `contexts` are read."""
_LISTED_PASSAGES = 3
"""Factor by which lists and comparisons read more passages than other answers."""
_LEAST_MET = 0.78
"""Least late interaction of a sentence in a table, as a share of the best one's.

Chosen on comparisons of the sample's documents.
"""
_LIMITS: dict[Kind, dict[str, int]] = {
    "comprehensive": {"sentences": 12},
    "comparison": {"sentences": 2},
}


def passages_wanted(query: str, kind: Kind, settings: AnswerSettings) -> int:
    """Return how many of the ranked chunks an answer is made from.

    A quoted list and a quoted comparison read three times as many as are set. Where a kind of fact
    is asked for, such as a duration, quotes are chosen among 1.6 times as many: it tells sentences
    apart that are otherwise alike.
    """
    if isinstance(settings, ExtractiveAnswers):
        if kind in ("comprehensive", "comparison"):
            return settings.contexts * _LISTED_PASSAGES
        if kinds_asked(query):
            return settings.contexts * 8 // 5
    return settings.contexts


def passages_read(query: str, kind: Kind, settings: AnswerSettings) -> int:
    """Return how many ranked chunks an answer is made from where the first ones hardly meet it."""
    wanted = passages_wanted(query, kind, settings)
    if not isinstance(settings, ExtractiveAnswers) or kind in ("comprehensive", "comparison"):
        return wanted
    return max(settings.contexts * _FURTHER, wanted)


def distinct(chunks: Sequence[ScoredChunk]) -> list[ScoredChunk]:
    """Drop chunks that say, in the same document, word for word what a better one says."""
    kept: dict[tuple[str, str], ScoredChunk] = {}
    for chunk in chunks:
        kept.setdefault(wording(chunk), chunk)
    return list(kept.values())


def wording(chunk: ScoredChunk) -> tuple[str, str]:
    """Return a chunk's document and its words, whatever the white space and the case."""
    return chunk.document_id, " ".join(chunk.text.split()).casefold()


def form_answers(
    questions: Sequence[ToAnswer],
    settings: ExtractiveAnswers,
    reader: Reader,
    calibration: Calibration = DEFAULT,
) -> list[Formed]:
    """Answer from ranked chunks with quotes alone.

    A clause lookup, a definition or a general question gets up to `sentences` sentences, headed by
    "Yes" or "No" where that is certain (see `verdict`); a comprehensive one up to 12; a comparison
    one row a document, from its own chunks, which is empty where these meet the question less than
    those of the others do, or state no fact of the kind that is asked for.
    """
    made = []
    for asked in questions:
        form = settings.model_copy(update={"contexts": _READ, **_LIMITS.get(asked.kind, {})})
        compared = asked.kind == "comparison"
        parts = [asked]
        if compared:
            parts = [asked._replace(chunks=own) for own in _by_document(asked.chunks).values()]
        chosen = [choose(one, form, reader, calibration) for one in parts]
        if compared:
            chosen = _to_the_point(asked.ask, chosen)
        made.append(_formed(asked, [as_answer(one) for one in chosen]))
    return made


def _formed(asked: ToAnswer, answers: Sequence[Answer]) -> Formed:
    if asked.kind == "comparison":
        return _compared(list(_by_document(asked.chunks)), answers)
    (answer,) = answers
    if not answer.answered:
        return Formed(replace(answer, text=NO_ANSWER))
    listing = asked.kind == "comprehensive"
    text = _quoted(answer.citations, listing)
    said = None if listing else verdict(asked.ask, answer.citations[0].text)
    return Formed(replace(answer, text=f"{said}: {text}" if said else text))


def _to_the_point(ask: str, chosen: Sequence[Chosen]) -> list[Chosen]:
    """Keep the sentences that meet the question about as well as the best does.

    Of these those that state the kind of fact that is asked for, if any does.
    """

    def kept(least: float, kinds: list[str]) -> list[Chosen]:
        return [
            one._replace(
                sentences=[
                    (sentence, late)
                    for sentence, late in one.sentences
                    if late >= least and states(sentence.text, kinds)
                ]
            )
            for one in chosen
        ]

    best = max((late for one in chosen for _, late in one.sentences), default=0.0)
    stating = kept(_LEAST_MET * best, kinds_asked(ask))
    return stating if any(one.sentences for one in stating) else kept(_LEAST_MET * best, [])


def _quoted(citations: Sequence[Citation], listing: bool) -> str:
    """Return each sentence in quotes with its number, as a list where several were asked for."""
    lines = [f"“{' '.join(c.text.split())}” [{c.number}]" for c in citations]
    return "\n".join(f"- {line}" for line in lines) if listing else "\n".join(lines)


def _by_document(chunks: Sequence[ScoredChunk]) -> dict[str, list[ScoredChunk]]:
    """Return the chunks of the documents that are compared, the first 8 of each."""
    by_document: dict[str, list[ScoredChunk]] = {}
    for chunk in chunks:
        by_document.setdefault(chunk.document_id, []).append(chunk)
    first = list(by_document.items())[:_COMPARED_FILES]
    return {document_id: own[:_COMPARED_PASSAGES] for document_id, own in first}


def _compared(documents: Sequence[str], answers: Sequence[Answer]) -> Formed:
    citations: list[Citation] = []
    rows = []
    for document_id, answer in zip(documents, answers, strict=True):
        numbered = [
            replace(c, number=len(citations) + n) for n, c in enumerate(answer.citations, 1)
        ]
        citations += numbered
        said = " ".join(f"“{' '.join(c.text.split())}” [{c.number}]" for c in numbered)
        rows.append(
            ComparisonRow(document_id, said or "—", numbered[0].number if numbered else None)
        )
    while len(rows) > _FEWEST_ROWS and rows[-1].number is None:
        rows.pop()
    best = max((a.confidence or 0.0 for a in answers), default=0.0)
    if not citations:
        return Formed(Answer(NO_ANSWER, answered=False, confidence=best))
    return Formed(Answer(as_table(rows), True, tuple(citations), best), tuple(rows))


def as_table(rows: Sequence[ComparisonRow]) -> str:
    """Return a Markdown table; bars inside of cells are escaped."""
    cells = [(r.document_id.replace("|", "\\|"), r.text.replace("|", "\\|")) for r in rows]
    lines = [f"| {document} | {text} |" for document, text in cells]
    return "\n".join(["| document | what it says |", "| --- | --- |", *lines])


def or_none(answer: Answer) -> Answer:
    """Return the answer; in our words where it says that there is none."""
    return answer if answer.answered else Answer(NO_ANSWER, answered=False)


Verify = Callable[[Citation], bool]


def verified(answer: Answer, verify: Verify) -> Answer:
    """Return the answer with each citation held against its document's text.

    A citation that its document does not bear out stays, flagged, and is named as a problem.
    """
    checked = tuple(replace(c, supports=c.supports and verify(c)) for c in answer.citations)
    wrong = [f"[{c.number}] is not in {c.document_id}" for c in checked if not c.supports]
    return replace(answer, citations=checked, problems=(*answer.problems, *wrong))
