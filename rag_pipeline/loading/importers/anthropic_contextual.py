"""Import Anthropic's contextual-retrieval set: code files with given chunks, and questions.

Each question names the chunks that answer it. The set's metric counts these chunks among the
retrieved chunks, so a gold span is exactly the span of a given chunk. Documents are called
`{doc_id}.txt`, not by the path of the file. Only questions give paths, so a path would reveal that
a question is about the document.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from rag_pipeline.datamodels import Chunk
from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet, GivenSpan, SpanNotFoundError, safe_path
from rag_pipeline.loading.importers.parsing import (
    NonBlank,
    SourceRecord,
    parse,
    parse_file,
    read_lines,
)

_DOCUMENTS, _QUESTIONS = "codebase_chunks.json", "evaluation_set.jsonl"


class _GivenChunk(SourceRecord):
    chunk_id: str
    original_index: int
    content: str


class _Document(SourceRecord):
    doc_id: NonBlank
    original_uuid: str
    content: str
    chunks: list[_GivenChunk]


class _GoldenChunk(SourceRecord):
    doc_uuid: str
    index: int
    content: str


class _Meta(SourceRecord):
    repo_name: str | None = None


class _AskedQuestion(SourceRecord):
    query: NonBlank
    answer: str | None = None
    golden_chunk_uuids: list[tuple[str, int]]
    golden_chunks: tuple[_GoldenChunk, ...] = ()
    meta: _Meta = _Meta()


_Located = tuple[str, Chunk | None]
"""The text of a given chunk, and its span, or None if the text is not in its document."""
_Chunks = dict[str, dict[int, _Located]]
"""Chunks by the uuid of the document, and by their index in the document."""


def read(source: Path) -> DataSet:
    """Read the folder with the chunks and the questions. Tag each query with its repository."""
    dataset = DataSet(chunks=[])
    chunks = _read_documents(source / _DOCUMENTS, dataset)
    path = source / _QUESTIONS
    for count, (number, line) in enumerate(read_lines(path), start=1):
        question = parse(_AskedQuestion, line, f"{path}: line {number}")
        query_id = f"anthropic-contextual-{count:04d}"
        try:
            golden = list(_golden_chunks(question, chunks))
        except SpanNotFoundError as error:
            dataset.skip(query_id, str(error))
            continue
        evidence = [GivenSpan(c.document_id, c.start, c.end, c.text) for c in golden]
        tags = (question.meta.repo_name,) if question.meta.repo_name else ()
        dataset.add_query(query_id, question.query, evidence, answer=question.answer, tags=tags)
    return dataset


def _read_documents(path: Path, dataset: DataSet) -> _Chunks:
    chunks: _Chunks = {}
    names: set[str] = set()
    for i, document in enumerate(parse_file(list[_Document], path)):
        where = f"{path}: [{i}]"
        document_id = f"{safe_path(document.doc_id, f'{where}.doc_id')}.txt"
        if "/" in document_id:
            raise InputError(f"{where}.doc_id: {document.doc_id!r}: expected a name without '/'")
        # On some file systems, names that differ only in case are one file.
        if document_id.casefold() in names:
            raise InputError(f"{where}.doc_id: {document.doc_id!r} is there twice")
        if document.original_uuid in chunks:
            raise InputError(f"{where}.original_uuid: {document.original_uuid!r} is there twice")
        names.add(document_id.casefold())
        dataset.documents[document_id] = document.content
        chunks[document.original_uuid] = _locate_chunks(document, document_id, dataset, where)
    return chunks


def _locate_chunks(
    document: _Document, document_id: str, dataset: DataSet, where: str
) -> dict[int, _Located]:
    text = dataset.documents[document_id]
    located: dict[int, _Located] = {}
    spans: list[Chunk] = []
    for given in sorted(document.chunks, key=lambda c: c.original_index):
        if given.original_index in located:
            raise InputError(f"{where}: original_index {given.original_index} is there twice")
        previous = spans[-1] if spans else Chunk(document_id, -1, 0, "")
        place = _find_chunk(text, given.content, previous)
        if place is None:
            reason = f"its text is not in {document_id}" if given.content.strip() else "it is blank"
            dataset.skip(f"chunk {given.chunk_id}", reason)
        else:
            spans.append(Chunk(document_id, *place, text[slice(*place)]))
            dataset.reanchored += spans[-1].text != given.content
        located[given.original_index] = given.content, spans[-1] if place else None
    if dataset.chunks is not None:
        dataset.chunks.extend(spans)
    return located


def _find_chunk(text: str, content: str, previous: Chunk) -> tuple[int, int] | None:
    """Return the span of a chunk after the start of the previous chunk, or None.

    A match that directly follows the previous chunk and white space is preferred. If there is no
    exact match, white space may differ.
    """
    if not content.strip():
        return None
    gap = re.compile(r"\s*").match(text, previous.end)
    for start in range(previous.end, (gap.end() if gap else previous.end) + 1):
        if text.startswith(content, start):
            return start, start + len(content)
    start = text.find(content, previous.start + 1)
    if start >= 0:
        return start, start + len(content)
    words = r"\s+".join(re.escape(word) for word in content.split())
    loose = re.compile(words).search(text, previous.start + 1)
    return loose.span() if loose else None


def _golden_chunks(question: _AskedQuestion, chunks: _Chunks) -> Iterator[Chunk]:
    texts = {(c.doc_uuid, c.index): c.content.strip() for c in question.golden_chunks}
    for uuid, index in question.golden_chunk_uuids:
        what = f"golden chunk {index} of {uuid}"
        given = chunks.get(uuid, {}).get(index)
        if given is None:
            raise SpanNotFoundError(f"{what}: not among the chunks")
        expected = texts.get((uuid, index), given[0].strip())
        if given[0].strip() != expected:
            same = [c for c in chunks[uuid].values() if c[0].strip() == expected]
            if len(same) != 1:
                raise SpanNotFoundError(
                    f"{what}: {len(same)} chunks of the document have its text; expected 1"
                )
            given = same[0]
        if given[1] is None:
            raise SpanNotFoundError(f"{what}: it was skipped")
        yield given[1]
