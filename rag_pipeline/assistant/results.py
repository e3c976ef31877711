"""Define the assistant's answer with its sources and the trace of its steps, and cache answers."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from threading import Lock
from typing import Any

from cachetools import LRUCache

from rag_pipeline.answering.forms import verified
from rag_pipeline.answering.intent import Intent
from rag_pipeline.answering.tables import DocumentOf as DocumentOf
from rag_pipeline.answering.tables import tables_of
from rag_pipeline.assistant.wording import (
    AMENDED,
    DOUBTFUL,
    LEFT_OUT,
    NEAREST_PASSAGES,
    confidence_said,
    in_language_of,
)
from rag_pipeline.client.records import Released as Released
from rag_pipeline.client.records import Source as Source
from rag_pipeline.client.records import Step
from rag_pipeline.datamodels import (
    Answer,
    Citation,
    ComparisonRow,
    FoundDocument,
    ScoredChunk,
    SearchResult,
)
from rag_pipeline.loading.places import place_of
from rag_pipeline.search.standing import amendments, lost, standings

Progress = Callable[[str, int, int], None]
"""Called at the start of a step with its name, the number of steps done, and of all steps."""
Detail = dict[str, Any]
"""Details of a step for the trace. Each step has its own keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistedAnswer:
    """An answer of the assistant with its sources and the trace of its steps.

    `passages` are the chunks that the answer was made from. `problems` lists wrong citations.
    `doubted` lists the sentences of `text` that no cited passage supports. `warnings` lists the
    steps that rules did instead of the model, and documents that may not be in force. `releases`
    are the searched releases.
    """

    query: str
    text: str
    answered: bool
    intent: Intent
    sources: tuple[Source, ...]
    documents: tuple[FoundDocument, ...]
    passages: tuple[ScoredChunk, ...]
    confidence: float | None
    problems: tuple[str, ...] = ()
    doubted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    table: tuple[ComparisonRow, ...] = ()
    trace: tuple[Step, ...] = ()
    releases: tuple[Released, ...] = ()

    @property
    def confidence_said(self) -> str:
        """Return a sentence about the confidence in the question's language, or ""."""
        return confidence_said(self._complete, self.answered, self.confidence)

    @property
    def nearest_said(self) -> str:
        """Return the title of a refusal's nearest passages in the question's language."""
        return in_language_of(self._complete, NEAREST_PASSAGES)

    @property
    def _complete(self) -> str:
        """Return the question as it was searched, which earlier questions may complete."""
        return str(self.trace[0].detail.get("rewritten", self.query)) if self.trace else self.query


def origin_of(passage: ScoredChunk) -> Mapping[str, Any] | None:
    """Return the origin of a chunk from outside the corpus, or None for a corpus's own chunk.

    A document cannot forge an origin, because loaded metadata contain no mappings.
    """
    origin = passage.metadata.get("expanded")
    return origin if isinstance(origin, Mapping) else None


def cited(
    answer: Answer, passages: Sequence[ScoredChunk], document_of: DocumentOf
) -> tuple[Answer, tuple[Source, ...]]:
    """Compare an answer's citations with the documents. Return the answer and its sources."""
    of_chunk = {passage.chunk_id: passage for passage in reversed(passages)}

    def holds(citation: Citation) -> bool:
        passage = of_chunk.get(citation.chunk_id)
        if passage is None or passage.document_id != citation.document_id:
            return False
        document = document_of(passage)
        if document is None:
            return citation.text in passage.text
        return document.text[citation.start : citation.end] == citation.text

    answer = verified(answer, holds)
    sources = tuple(
        Source(
            number=c.number,
            corpus=passage.corpus,
            document_id=c.document_id,
            content_hash=document.content_hash if document else "",
            chunk_id=c.chunk_id,
            start=c.start,
            end=c.end,
            text=c.text,
            verified=holds(c),
            supports=c.supports,
            origin=origin_of(passage),
            place=document and place_of(document, c.start, c.end),
            copies=passage.copies,
        )
        for c in answer.citations
        if (passage := of_chunk.get(c.chunk_id)) is not None
        for document in [document_of(passage)]
    )
    return answer, sources


def with_column_names(answer: Answer, passages: Sequence[ScoredChunk], read: DocumentOf) -> str:
    """Return the answer's text with the column's name before each cell of a quoted table row.

    A quoted JSON object is given by its fields.
    A quote of the column names is left out, and its number follows each row of the table. If other
    tables of the document have the same columns, the heading above the table comes first.
    """
    text, of_chunk = answer.text, {passage.chunk_id: passage for passage in passages}
    quoted = [c for c in answer.citations if c.chunk_id in of_chunk]
    cited: defaultdict[tuple[str, int, int], list[Citation]] = defaultdict(list)
    for one in answer.citations:  # both sides of a comparison may cite the same row
        cited[one.document_id, one.start, one.end].append(one)
    documents = {c.document_id: read(of_chunk[c.chunk_id]) for c in quoted}
    tables = [(n, t) for n, d in documents.items() if d for t in tables_of(d)]
    heads = Counter((n, t.head.cells) for n, t in tables if t.head)
    for citation in quoted:
        if said := _fields(citation.text):
            for quote in _quotes(citation):
                text = text.replace(quote, f"“{said}” [{citation.number}]")
    for name, table in tables:
        rows = [(row, c) for row in table.rows for c in cited.get((name, row.start, row.end), ())]
        if table.head is None or not rows:
            continue
        is_one_of_many = heads[name, table.head.cells] > 1
        heading = table.caption.splitlines()[-2:-1] if is_one_of_many else []
        marks: list[int] = []
        for of_head in cited.get((name, table.head.start, table.head.end), ()):
            for quote, joint in product(_quotes(of_head), "\n "):
                if f"{joint}{quote}" in text:
                    text, marks = text.replace(f"{joint}{quote}", ""), [*marks, of_head.number]
        for row, citation in rows:
            named = zip_longest(table.head.cells, row.cells, fillvalue="")
            cells = [f"{column}: {cell}" if column else cell for column, cell in named if cell]
            number = next((n for n in marks if n > citation.number), max(marks, default=0))
            mark = f" [{number}]" if number else ""
            for quote in _quotes(citation):
                told = f"“{' · '.join([*heading, *cells])}” [{citation.number}]{mark}"
                text = text.replace(quote, told)
    return text


def _fields(text: str) -> str:
    """Return the fields of a JSON object as `name: value`, or "" for another text."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(record, dict):
        return ""
    said = {n: v for n, v in record.items() if v is not None}
    texts = (v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in said.values())
    return " · ".join(map("{}: {}".format, said, texts))


def _quotes(citation: Citation) -> Iterator[str]:
    """Yield a citation's quote as it stands in an answer, on one line, and in a table's cell."""
    flat = " ".join(citation.text.split())
    for words in (citation.text, flat, flat.replace("|", "\\|")):
        yield f"“{words}” [{citation.number}]"


def standing_warnings(question: str, found: SearchResult, answer: Answer) -> list[str]:
    """Return a warning for each document that is left out, may not be in force, or is amended.

    A document is left out if a cited document replaces it. The other warnings are about cited
    documents. A document may not be in force if its name marks it as a draft, a copy or an old
    version, or if another retrieved document's name does. A document is amended if a retrieved
    document amends it.
    """
    ids = {chunk.document_id for chunk in found.chunks}
    standing, cited = standings(ids), {citation.document_id for citation in answer.citations}
    amended = sorted(amendments(found.chunks).items())
    left_out = [(d, other) for d, other in lost(question, ids).items() if other in cited]
    return [
        *(LEFT_OUT.format(d, standing[d], other) for d, other in left_out),
        *(DOUBTFUL.format(d, standing[d]) for d in sorted(cited & {*standing})),
        *(AMENDED.format(d, ", ".join(sorted(by))) for d, by in amended if d in cited),
    ]


_MOST_BYTES = 32 << 20
"""Maximum size in bytes of the kept answers."""


class KeptAnswers:
    """A cache of the latest answers. Threads may share the object.

    The key of an answer has all its inputs: releases, callers, question and options.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[Hashable, AssistedAnswer] = LRUCache(_MOST_BYTES, _size_of)
        self._lock = Lock()

    def get(self, key: Hashable, progress: Progress | None) -> AssistedAnswer | None:
        """Return a kept answer, or None. The steps of its trace begin now and are marked."""
        with self._lock:
            made = self._kept.get(key)
        if made is None:
            return None
        now, trace = time.time_ns(), []
        for done, step in enumerate(made.trace):
            if progress is not None:
                progress(step.name, done, max(3, done + 1))
            detail = {**step.detail, "kept": True}
            trace.append(step.model_copy(update={"seconds": 0.0, "began": now, "detail": detail}))
        return replace(made, trace=tuple(trace))

    def keep(self, key: Hashable, answer: AssistedAnswer) -> None:
        """Keep an answer. If the cache is full, drop the least recently used answers."""
        with self._lock, suppress(ValueError):  # an answer larger than the cache
            self._kept[key] = answer


def _size_of(answer: AssistedAnswer) -> int:
    """Return the approximate bytes of an answer."""
    texts = sum(len(one.text) + len(one.context) + len(one.token_signs) for one in answer.passages)
    quotes = sum(2_000 + len(source.text) for source in answer.sources)
    return 5_000 + len(answer.text) + texts + 1_000 * len(answer.passages) + quotes
