"""Answer from the tables, lists and sections of whole documents."""

import math
from collections.abc import Iterable, Iterator, Sequence

from rag_pipeline.answering.extractive import Ranked, word_share
from rag_pipeline.answering.facts import kinds_asked
from rag_pipeline.answering.lists import (
    asks_for_steps,
    asks_for_summary,
    find_list,
    subject,
    summary_spans,
)
from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.reading import is_across
from rag_pipeline.answering.tables import (
    DocumentOf,
    Found,
    asks_for_extreme,
    find_rows,
    said,
    with_all_rows,
)
from rag_pipeline.datamodels import Answer, Citation, Document, ScoredChunk, SearchResult, Span
from rag_pipeline.search.standing import in_force

_PASSAGES = 8
"""Number of first passages whose documents are read."""
_DOCUMENTS = 3
"""Number of first documents whose lists are read."""
_MOST_SENTENCES = 12
"""Maximum number of sentences of a summary."""
_LEAST_COVERED = 0.35
"""Least weight of the question's words that a table or list and its document must have."""
_MARGIN = 0.02
_OF_STEPS = 0.5
"""Maximum difference in weight between the best sentence and steps with a heading about it."""
_QUOTED = 3
"""Number of first sentences that rows and lists are compared with."""
_ITEMS_QUOTED = 2
_LONGEST_ITEM = 250
"""Maximum mean number of characters of a list's items. Longer items are clauses."""


def structured_answer(
    found: SearchResult, ranked: Ranked, document_of: DocumentOf
) -> Answer | None:
    """Return an answer of table rows, a whole list or a summary, or None if sentences fit better.

    Rows and lists answer if they have as many of the question's words as the best sentence.
    """
    if not ranked.sentences:
        return None
    question, chunks = found.query, in_force(found.query, found.chunks)[:_PASSAGES]
    documents = _documents(chunks, document_of)
    words = Words(subject(question), _texts(chunks, documents))
    if asks_for_summary(question):
        chunk, document = next(iter(documents), (None, None))
        if chunk is None or document is None:
            return None
        spans = summary_spans(words, document, _MOST_SENTENCES)
        return _answer(ranked, [], [(chunk, document, span) for span in spans])
    best = max((word_share(words, one) for one in ranked.first(_QUOTED)), default=0.0)
    rows = find_rows(question, words, chunks, document_of)
    if found.token_weights is None and is_across(question, ranked.sentences[0].chunk.text):
        # Only names match across languages.
        return (
            _table_answer(question, rows, ranked, document_of) if _is_named(rows, words) else None
        )
    listed = _list(question, words, ranked, documents, best)
    extreme = with_all_rows(question, chunks, document_of, words) if _is_single(rows) else []
    if extreme and asks_for_extreme(question):
        return _table_answer(question, extreme, ranked, document_of)
    if rows and rows[0].covered >= _least(rows[0], chunks[0], words, best):
        return _table_answer(question, rows, ranked, document_of)
    if rows := with_all_rows(question, chunks, document_of, words):
        return _table_answer(question, rows, ranked, document_of)
    if listed and listed[0] >= _LEAST_COVERED:
        return _answer(ranked, [], [listed[1:]])
    return None


def _is_named(rows: Sequence[Found], words: Words) -> bool:
    """Return whether the question names all words of a cell."""
    return any(words.covers(cell) == 1 for one in rows for row in one.rows for cell in row.cells)


def _is_single(rows: Sequence[Found]) -> bool:
    return sum(len(found.rows) for found in rows) <= 1


def _least(found: Found, first: ScoredChunk, words: Words, best: float) -> float:
    """Return the least weight of words that rows need to answer.

    Rows with a wholly named cell, of a document of tables that ranks first, need few words.
    """
    lines = [line for line in first.text.splitlines() if line.strip()]
    rows = sum(line.lstrip().startswith("|") for line in lines)
    is_of_tables = first.document_id == found.chunk.document_id and 2 * rows > len(lines)
    return (
        _LEAST_COVERED
        if is_of_tables and _is_named([found], words)
        else max(_LEAST_COVERED, best - _MARGIN)
    )


def _list(
    question: str,
    words: Words,
    ranked: Ranked,
    documents: Sequence[tuple[ScoredChunk, Document]],
    best: float,
) -> tuple[float, ScoredChunk, Document, Span] | None:
    """Return the list that a question asks for, with the weight of its words.

    The list has about as many words of the question as `best`, the weight of the best sentence.
    Steps below a heading about the question may have fewer, because steps rarely repeat it. They
    need no sentence among the best. Any other list holds one of the best sentences. Words of
    the question are in its heading or in the line above, not in a single item. If they are only in
    the document's title, the list holds two of the best sentences.
    """
    steps = asks_for_steps(question)
    pairs = documents[:_DOCUMENTS]
    found = find_list(question, words, [document for _, document in pairs], steps)
    if found is None:
        return None
    share, document, block = found
    start, end = block.span
    if end - start > _LONGEST_ITEM * len(block.items):
        return None
    chunk = next(chunk for chunk, own in pairs if own is document)
    are_steps = steps and block.numbered
    is_headed = bool(words.in_text(block.above))
    if share < best - (_OF_STEPS if are_steps and is_headed else _MARGIN):
        return None
    if not are_steps:
        held = [
            one.chunk.document_id == document.document_id and start <= one.start < end
            for one in ranked._replace(within=math.inf).first(_QUOTED)
        ]
        if kinds_asked(question) or not any(held):
            return None
        title, above = words.in_text(document.title), words.in_text(block.above)
        own = [words.in_text(document.text[slice(*item)]) - above - title for item in block.items]
        if sum(map(bool, own)) == 1:
            return None
        if not above - title and (any(own) or sum(held) < _ITEMS_QUOTED):
            return None
    return share, chunk, document, block.span


def _documents(
    chunks: Sequence[ScoredChunk], document_of: DocumentOf
) -> list[tuple[ScoredChunk, Document]]:
    first: dict[tuple[str, str], ScoredChunk] = {}
    for chunk in chunks:
        first.setdefault((chunk.corpus, chunk.document_id), chunk)
    read = ((chunk, document_of(chunk)) for chunk in list(first.values())[:4])
    return [(chunk, document) for chunk, document in read if document is not None]


def _texts(
    chunks: Sequence[ScoredChunk], documents: Sequence[tuple[ScoredChunk, Document]]
) -> Iterator[str]:
    for chunk in chunks:
        yield f"{chunk.text}\n{chunk.context}"
    for _, document in documents:
        yield f"{document.title}\n{document.document_id}\n{document.text[:200_000]}"


def _table_answer(
    question: str, rows: Sequence[Found], ranked: Ranked, document_of: DocumentOf
) -> Answer:
    spans = []
    heads = []
    for one in rows:
        document = document_of(one.chunk)
        assert document is not None
        spans += [(one.chunk, document, (row.start, row.end)) for row in one.rows]
        if one.table.head is not None:
            heads.append((one.chunk, document, (one.table.head.start, one.table.head.end)))
    words = said(question, rows)
    return _answer(ranked, [words] if words else [], spans + heads)


def _answer(
    ranked: Ranked, lead: Iterable[str], quoted: Sequence[tuple[ScoredChunk, Document, Span]]
) -> Answer:
    citations = tuple(
        Citation(number, c.chunk_id, c.document_id, start, end, document.text[start:end])
        for number, (c, document, (start, end)) in enumerate(quoted, 1)
    )
    lines = [f"“{citation.text}” [{citation.number}]" for citation in citations]
    text = "\n".join([*lead, *lines])
    return Answer(text, answered=True, citations=citations, confidence=ranked.confidence)
