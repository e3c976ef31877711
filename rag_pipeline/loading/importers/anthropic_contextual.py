"""Import Anthropic's contextual-retrieval set: code files with given chunks, and questions.

Each question names the chunks that answer it. The set's metric counts these chunks among the
retrieved chunks, so a gold span is exactly the span of a given chunk. A document's id is
`{doc_id}.txt`. Paths as ids would reveal the documents of questions, because only questions give
paths.
"""

from pathlib import Path

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet, GivenSpan, span_of
from rag_pipeline.loading.parsing import NonBlank, SourceRecord, parse, parse_file, read_lines

_DOCUMENTS, _QUESTIONS = "codebase_chunks.json", "evaluation_set.jsonl"


class _GivenChunk(SourceRecord):
    chunk_id: str
    original_index: int
    content: NonBlank


class _Document(SourceRecord):
    doc_id: NonBlank
    original_uuid: str
    content: str
    chunks: list[_GivenChunk]


class _Meta(SourceRecord):
    repo_name: str | None = None


class _AskedQuestion(SourceRecord):
    query: NonBlank
    answer: str | None = None
    golden_chunk_uuids: list[tuple[str, int]]
    meta: _Meta = _Meta()


_Chunks = dict[tuple[str, int], GivenSpan]
"""Chunks by the document's uuid and their index in the document."""


def read(source: Path) -> DataSet:
    """Read the folder with the chunks and the questions. Tag each query with its repository."""
    dataset = DataSet()
    chunks = _read_chunks(source / _DOCUMENTS, dataset)
    dataset.chunks = [span_of(c.document_id, c.start, c.end) for c in chunks.values()]
    path = source / _QUESTIONS
    for count, (number, line) in enumerate(read_lines(path), start=1):
        question = parse(_AskedQuestion, line, f"{path}: line {number}")
        query_id = f"anthropic-contextual-{count:04d}"
        missing = [place for place in question.golden_chunk_uuids if place not in chunks]
        if missing:
            dataset.skip(query_id, f"golden chunk {missing[0]}: the set has no such chunk")
            continue
        evidence = [chunks[place] for place in question.golden_chunk_uuids]
        tags = (question.meta.repo_name,) if question.meta.repo_name else ()
        dataset.add_query(query_id, question.query, evidence, answer=question.answer, tags=tags)
    return dataset


def _read_chunks(path: Path, dataset: DataSet) -> _Chunks:
    """Add the documents of a file to the data set, and return their chunks in order."""
    chunks: _Chunks = {}
    for i, document in enumerate(parse_file(list[_Document], path)):
        document_id = dataset.add_document(document.doc_id, document.content)
        end = 0
        for given in sorted(document.chunks, key=lambda c: c.original_index):
            place = document.original_uuid, given.original_index
            if place in chunks:
                raise InputError(f"{path}: [{i}]: the chunk {place} occurs twice")
            start = document.content.find(given.content, end)
            if start < 0:
                dataset.skip(f"chunk {given.chunk_id}", f"its text is not in {document_id}")
                continue
            end = start + len(given.content)
            chunks[place] = GivenSpan(document_id, start, end, given.content)
    return chunks
