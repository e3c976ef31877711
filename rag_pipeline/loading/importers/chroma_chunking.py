"""Import Chroma's chunking evaluation: long Markdown corpora and `questions_df.csv`.

A corpus is one document, `{corpus_id}.md`. Questions about missing corpora are skipped.
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet, GivenSpan
from rag_pipeline.loading.parsing import NonBlank, SourceRecord, parse, read_bytes

_QUESTIONS = "questions_df.csv"


class _Reference(SourceRecord):
    content: str
    start_index: int
    end_index: int


class _Question(SourceRecord):
    question: NonBlank
    references: NonBlank
    corpus_id: NonBlank


def read(source: Path) -> DataSet:
    """Read the folder with the questions, and the `*.md` files in it or in its `corpora/`."""
    questions = list(_read_questions(source / _QUESTIONS))
    asked = {question.corpus_id for question, _ in questions}
    dataset = DataSet()
    for path in sorted([*source.glob("*.md"), *source.glob("corpora/*.md")]):
        if path.stem not in asked:
            dataset.skip(path.name, f"not a corpus: no question in {_QUESTIONS} is about it")
        elif path.name in dataset.documents:
            raise InputError(f"{path}: the corpus {path.stem!r} has two files; remove one")
        else:
            dataset.documents[path.name] = _read_text(path)
    for number, (one, references) in enumerate(questions, start=1):
        query_id, document_id = f"chroma-chunking-{number:04d}", f"{one.corpus_id}.md"
        if document_id not in dataset.documents:
            dataset.skip(query_id, f"the corpus {one.corpus_id!r} is missing")
            continue
        found = [GivenSpan(document_id, r.start_index, r.end_index, r.content) for r in references]
        dataset.add_query(query_id, one.question, found, tags=(one.corpus_id,))
    return dataset


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error


def _read_questions(path: Path) -> Iterator[tuple[_Question, list[_Reference]]]:
    rows = csv.DictReader(
        io.StringIO(_read_text(path).removeprefix("\ufeff"), newline=""), strict=True
    )
    try:
        for number, row in enumerate(rows, start=1):
            where = f"{path}: row {number} (up to line {rows.line_num})"
            question = parse(_Question, json.dumps(row), where)
            yield question, parse(list[_Reference], question.references, f"{where}: references")
    except csv.Error as error:
        raise InputError(f"{path}: line {rows.reader.line_num}: not valid CSV: {error}") from error
