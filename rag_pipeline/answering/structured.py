"""Answer from the tables, lists and sections of whole documents."""

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from rag_pipeline.answering.citing import in_document
from rag_pipeline.answering.computing import asks_for_extreme, rows_beyond, said, with_all_rows
from rag_pipeline.answering.extractive import Ranked, word_share
from rag_pipeline.answering.facts import kinds_asked
from rag_pipeline.answering.lists import (
    Block,
    asks_for_several,
    asks_for_steps,
    asks_for_summary,
    asks_openly,
    end_of_lead,
    lists_for,
    lists_of,
    subject,
    summary_spans,
)
from rag_pipeline.answering.matching import Words
from rag_pipeline.answering.reading import multilingual
from rag_pipeline.answering.sentences import Sentence, spaced
from rag_pipeline.answering.tables import (
    MOST_ROWS,
    DocumentOf,
    Found,
    ScoredRows,
    find_rows,
    label_words,
    named_row,
    scored_rows,
)
from rag_pipeline.datamodels import Answer, Document, ScoredChunk, SearchResult, Span
from rag_pipeline.search.standing import in_force

_PASSAGES = 8
"""Number of first passages whose documents are read."""
_DOCUMENTS = 3
"""Number of first documents whose lists are read."""
_MOST_SENTENCES = 12
"""Maximum number of sentences of a summary."""
_LEAST_COVERED = 0.35
"""Least weight of the question's words that a table or list and its document must have."""
_MARGIN, _HEADED_MARGIN = 0.02, 0.1
"""Maximum difference in weight between the best sentence and a list, and the same for a list with a
heading about the question."""
_LEAST_HEADED = 0.6
"""Least weight of the question's words above headings that answer."""
_OF_STEPS = 0.5
"""Maximum difference in weight between the best sentence and steps with a heading about it."""
_NEAR = 2.0
"""Maximum difference in score between the best sentence and one that rows or a list hold.

Chosen on three mixed folders (docs/measurements.md).
"""
_QUOTED = 3
"""Number of first sentences that rows and lists are compared with."""
_ITEMS_QUOTED = 2
_LONGEST_READ, _LESS_ALIKE = 300, 0.02
"""Number of characters of a list that the multilingual model reads, and the maximum difference in
cosine between the best sentence and a list."""
_OF_WORDS = 0.05
"""Weight of the share of the question's words in a list and above it, relative to the cosine."""
_AROUND = 0.02
"""Added to the cosine of the list that holds the best sentence."""
_LONGEST_ITEM = 250
"""Maximum mean number of characters of a list's items. Longer items are clauses."""


def structured_answer(
    found: SearchResult, ranked: Ranked, document_of: DocumentOf
) -> Answer | None:
    """Return an answer of table rows, a whole list or a summary, or None if sentences fit better.

    Rows and lists answer if they have about as many of the question's words as the best sentence.
    They also hold a sentence whose score is near the best score. Steps, computed numbers, cells of
    an asked column and lists of the best sentence's document need no such sentence. A row that the
    question names answers, unless the best sentence is prose with this name (see `named_row`). Rows
    below or above a limit that the question names always answer (see `rows_beyond`).
    """
    if not ranked.sentences or "cause" in kinds_asked(found.query):
        return None
    question, chunks = found.query, in_force(found.query, found.chunks)[:_PASSAGES]
    documents = _documents(chunks, document_of)
    words = Words(subject(question), _texts(chunks, documents))
    is_whole = asks_for_summary(question) or asks_for_steps(question)
    scored = scored_rows(question, words, chunks, document_of)
    if not is_whole and (beyond := rows_beyond(question, chunks, document_of)):
        return _table_answer(question, beyond, ranked, document_of)
    row = [] if is_whole else named_row(question, words, scored)
    first = "" if ranked.sentences[0].is_row else ranked.sentences[0].text
    name = row[0].rows[0].cells[0] if row else ""
    named = words.in_text(name) | (label_words(question, [name]) & words.asked)
    if row and not named <= words.in_text(first):
        return _table_answer(question, row, ranked, document_of)
    answer = _structured(found, ranked, document_of, words, documents, scored)
    if answer is None or is_whole:
        return answer
    is_said = not answer.text.startswith("“") and not asks_for_extreme(found.query)
    return answer if is_said or _is_near(ranked, answer) else None


def _is_near(ranked: Ranked, answer: Answer) -> bool:
    """Return whether an answer holds a part of a sentence that scores near the best one.

    A list or a computed number may also be from the best sentence's document. If the best sentence
    is a row of the answer's document, the answer holds this row.
    """
    first, cited = ranked.sentences[0], answer.citations[0]
    is_same = cited.document_id == first.chunk.document_id
    if is_same and not (cited.text.startswith("|") and answer.text.startswith("“")):
        return True
    least = ranked.scores[0] - (0.0 if is_same and first.is_row else _NEAR)
    pairs = zip(ranked.sentences, ranked.scores, strict=True)
    near = [one for one, score in pairs if score >= least]
    return any(
        one.chunk.document_id == cited.document_id
        and one.start < cited.end
        and cited.start < one.start + len(one.text)
        for one in near
        for cited in answer.citations
    )


def _structured(
    found: SearchResult,
    ranked: Ranked,
    document_of: DocumentOf,
    words: Words,
    documents: Sequence[tuple[ScoredChunk, Document]],
    scored: Sequence[ScoredRows],
) -> Answer | None:
    question, chunks = found.query, in_force(found.query, found.chunks)[:_PASSAGES]
    if asks_for_summary(question):
        if not documents:
            return None
        chunk, document = documents[0]
        spans = summary_spans(words, document, _MOST_SENTENCES)
        return _answer(ranked, [], [(chunk, document, span) for span in spans])
    by_meaning = found.token_weights is None and found.kind != "comprehensive"
    if by_meaning and (alike := _list_by_meaning(question, words, ranked, documents)):
        return _list_answer(alike, ranked)
    best = max((word_share(words, one) for one in ranked.first(_QUOTED)), default=0.0)
    rows = find_rows(question, words, scored)
    every = with_all_rows(question, chunks, document_of, words)
    if every:
        named = max((found.covered for found in rows), default=0.0)
        is_better = every[0].covered > max(named, _LEAST_COVERED, best - _MARGIN)
        is_single = sum(len(found.rows) for found in rows) <= 1
        if is_better or (is_single and asks_for_extreme(question)):
            return _table_answer(question, every, ranked, document_of)
    listed = _list(question, words, ranked, documents, best)
    if rows and rows[0].covered >= _least(rows[0], chunks[0], best):
        return _table_answer(question, rows, ranked, document_of)
    if every and every[0].chunk.document_id == chunks[0].document_id:
        return _table_answer(question, every, ranked, document_of)
    return _list_answer(listed, ranked)


def _list_answer(
    listed: tuple[ScoredChunk, Document, Block] | None, ranked: Ranked
) -> Answer | None:
    if listed is None:
        return None
    chunk, document, block = listed
    spans, text = list(block.spans), document.text
    if block.apart:
        spans = [(start, end_of_lead(text, end)) for start, end in spans]
    above = text[: spans[0][0]].rstrip()
    if above.endswith(":") and above.endswith(block.own):  # the sentence that leads to the list
        spans[0] = (len(above) - len(block.own), spans[0][1])
    return _answer(ranked, [], [(chunk, document, span) for span in spans])


def _list_by_meaning(
    question: str, words: Words, ranked: Ranked, documents: Sequence[tuple[ScoredChunk, Document]]
) -> tuple[ScoredChunk, Document, Block] | None:
    """Return the list whose headings and first items best match a question in meaning, or None.

    A question for steps gets a numbered list. Another question gets a list only if it names several
    things, as in "which measures", or if it is open and asks for no kind of fact. The cosine
    of the list is about the best sentence's or higher. The list has a word of the question, or is
    in the document of the best sentence.
    """
    steps, embed = asks_for_steps(question), multilingual()
    is_open = asks_openly(question) and not kinds_asked(question)
    if embed is None or not (steps or is_open or asks_for_several(question)):
        return None
    lists = [
        (chunk, document, block)
        for chunk, document in documents[:_DOCUMENTS]
        for block in lists_of(document)
        if not block.apart and block.numbered >= steps
    ]
    texts = [
        f"{document.title}: {': '.join(block.above.splitlines())}: "
        f"{block.text(document.text)[:_LONGEST_READ]}"
        for _, document, block in lists
    ]
    vectors = embed([ranked.sentences[0].with_headings, *texts])
    best, *cosines = (vectors @ embed.asked(question)).tolist()
    first, likely = ranked.sentences[0], []
    for cosine, one in zip(cosines, lists, strict=True):
        _, document, block = one
        held = words.in_text(f"{block.above}\n{block.text(document.text)}")
        is_same = document.document_id == first.chunk.document_id
        around = is_same and first.start in range(*block.span)
        if cosine >= best - _LESS_ALIKE and (held or is_same):
            likely.append((cosine + _OF_WORDS * words.share(held) + _AROUND * around, one))
    return max(likely, key=itemgetter(0), default=(0.0, None))[1]


def _least(found: Found, first: ScoredChunk, best: float) -> float:
    """Return the least weight of the question's words that rows need to answer.

    Rows of another document than the best chunk's need more words than the best sentence.
    """
    is_same = first.document_id == found.chunk.document_id
    return max(_LEAST_COVERED, best - _MARGIN if is_same else best + _MARGIN)


def _list(
    question: str,
    words: Words,
    ranked: Ranked,
    documents: Sequence[tuple[ScoredChunk, Document]],
    best: float,
) -> tuple[ScoredChunk, Document, Block] | None:
    """Return the list that a question asks for, or None.

    The list has about as many words of the question as the best sentence, whose weight is `best`.

    - Steps below a heading about the question may have fewer words, because steps rarely repeat
      the question. They need not hold one of the best sentences.
    - Headings answer if words of the question are above them and not in them.
    - Any other list, or the line above it, holds one of the best sentences. Words of the question
      are in its heading or the line above it, not in a single item. If they are only in the
      document's title, the list holds two of the best sentences.
    """
    steps, facts = asks_for_steps(question), bool(kinds_asked(question))
    pairs = documents[:_DOCUMENTS]
    quoted = ranked._replace(within=math.inf).first(_QUOTED)
    for share, document, block in lists_for(question, words, [d for _, d in pairs], steps):
        if share < _LEAST_COVERED:
            continue
        if _fits(words, quoted, document, block, steps, facts, share - best):
            chunk = next(chunk for chunk, own in pairs if own is document)
            return chunk, document, block
    return None


def _fits(
    words: Words,
    quoted: Sequence[Sentence],
    document: Document,
    block: Block,
    steps: bool,
    facts: bool,
    more: float,
) -> bool:
    """Return whether a list answers. `more` is its weight minus that of the best sentence."""
    if len(block.text(document.text)) > _LONGEST_ITEM * len(block.items):
        return False
    title, above = words.in_text(document.title), words.in_text(block.above)
    are_steps = steps and block.numbered and bool(above)
    near = words.in_text(block.own) if block.own != document.title else frozenset()
    if more < -(_OF_STEPS if are_steps else _HEADED_MARGIN if near else _MARGIN):
        return False
    if are_steps:
        return True
    own = [words.in_text(document.text[slice(*item)]) - above - title for item in block.items]
    if block.apart:
        is_headed = words.share(words.in_text(block.own)) >= _LEAST_HEADED
        return is_headed and not any(own) and not facts
    start, end = block.span
    start = max(document.text.rfind("\n", 0, len(document.text[:start].rstrip())) + 1, 0)
    held = [
        one.chunk.document_id == document.document_id and start <= one.start < end for one in quoted
    ]
    if not any(held) or (facts and not steps) or (sum(map(bool, own)) == 1 and not steps):
        return False
    return bool(near or above - title) or not (any(own) or sum(held) < _ITEMS_QUOTED)


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
        yield f"{spaced(chunk, chunk.text)}\n{chunk.context}"
    for chunk, document in documents:
        text = spaced(chunk, document.text[:200_000])
        yield f"{document.title}\n{document.document_id}\n{text}"


def _table_answer(
    question: str, rows: Sequence[Found], ranked: Ranked, document_of: DocumentOf
) -> Answer:
    spans, heads = [], []
    lead, rows = said(question, rows)
    for one in rows:
        document = document_of(one.chunk)
        assert document is not None
        spans += [(one.chunk, document, (row.start, row.end)) for row in one.rows[:MOST_ROWS]]
        if one.table.head is not None:
            heads.append((one.chunk, document, (one.table.head.start, one.table.head.end)))
    return _answer(ranked, filter(None, [lead]), spans + heads)


def _answer(
    ranked: Ranked, lead: Iterable[str], quoted: Sequence[tuple[ScoredChunk, Document, Span]]
) -> Answer:
    once = {(c.corpus, c.document_id, span): (c, d, span) for c, d, span in quoted}
    citations = tuple(in_document(*place, number) for number, place in enumerate(once.values(), 1))
    lines = [f"“{citation.text}” [{citation.number}]" for citation in citations]
    text = "\n".join([*lead, *lines])
    return Answer(text, answered=True, citations=citations, confidence=ranked.confidence)
