"""Import Chroma's chunking evaluation: long Markdown corpora and `questions_df.csv`.

A corpus is one document, `{corpus_id}.md`. Questions about missing corpora are skipped.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet, GivenSpan, safe_path
from rag_pipeline.loading.importers.parsing import SourceRecord, parse, read_bytes

_QUESTIONS = "questions_df.csv"
_COLUMNS = ("question", "references", "corpus_id")


class _Reference(SourceRecord):
    content: str
    start_index: int
    end_index: int


_Question = tuple[str, str, list[_Reference], str]
"""The query id, the question, its references and its corpus id."""


def read(source: Path) -> DataSet:
    """Read the folder with the questions, and the `*.md` files beside them or in `corpora/`."""
    questions = list(_read_questions(source / _QUESTIONS))
    asked = {corpus_id for *_, corpus_id in questions}
    dataset = DataSet()
    for path in sorted([*source.glob("*.md"), *source.glob("corpora/*.md")]):
        if path.stem not in asked:
            dataset.skip(path.name, f"not a corpus: no question in {_QUESTIONS} is about it")
        elif path.name in dataset.documents:
            raise InputError(f"{path}: the corpus {path.stem!r} is there twice; remove one")
        else:
            dataset.documents[path.name] = _read_text(path)
    for query_id, question, references, corpus_id in questions:
        document_id = f"{corpus_id}.md"
        if document_id not in dataset.documents:
            dataset.skip(query_id, f"the corpus {corpus_id!r} is not there")
            continue
        found = [GivenSpan(document_id, r.start_index, r.end_index, r.content) for r in references]
        dataset.add_query(query_id, question, found, tags=(corpus_id,))
    return dataset


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error


def _read_questions(path: Path) -> Iterator[_Question]:
    rows = csv.DictReader(
        io.StringIO(_read_text(path).removeprefix("\ufeff"), newline=""), strict=True
    )
    try:
        missing = [c for c in _COLUMNS if c not in (rows.fieldnames or ())]
        if missing:
            wrong = f"no column {missing[0]!r}, got {rows.fieldnames}"
            raise InputError(f"{path}: line 1: {wrong}; expected {', '.join(_COLUMNS)}")
        for number, row in enumerate(rows, start=1):
            where = f"{path}: row {number} (up to line {rows.line_num})"
            for column in _COLUMNS:
                if not (row[column] or "").strip():
                    raise InputError(f"{where}: {column}: expected a text, got {row[column]!r}")
            corpus_id = safe_path(row["corpus_id"], f"{where}: corpus_id")
            if "/" in corpus_id:
                raise InputError(f"{where}: corpus_id: {corpus_id!r}: expected a name without '/'")
            references = parse(list[_Reference], row["references"], f"{where}: references")
            yield f"chroma-chunking-{number:04d}", row["question"], references, corpus_id
    except csv.Error as error:
        raise InputError(f"{path}: line {rows.reader.line_num}: not valid CSV: {error}") from error
