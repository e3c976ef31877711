"""Write a data set to a folder.

A marker file, which lists the imported documents, is written first. The queries are written last. A
repeated import therefore gives the same bytes, and completes an interrupted import.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rag_pipeline.datamodels import Chunk, GoldSpan, Query
from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet, safe_path
from rag_pipeline.loading.importers.parsing import SourceRecord, parse_file

CopyProgress = Callable[[int, int], None]

_MARKER = ".rag-import.json"
_PART = ".rag-import.part"


class _Marker(SourceRecord):
    format: str
    documents: list[str]


def write(
    dataset: DataSet, format: str, destination: Path, progress: CopyProgress | None
) -> tuple[Path, ...]:
    """Write documents, chunks and queries, and return their paths.

    Files that only an earlier import wrote are removed, and all other files stay. Raise InputError
    if the destination holds anything but an import of this format. Raise OSError if it can't be
    written.
    """
    earlier = _earlier_documents(format, destination)
    documents, queries = destination / "documents", destination / "queries.jsonl"
    documents.mkdir(parents=True, exist_ok=True)

    def put(path: Path, data: bytes) -> None:
        # Remove the queries first: they must not refer to half-replaced documents.
        if not _holds(path, data):
            queries.unlink(missing_ok=True)
            _replace(path, data, destination / _PART)

    marker = destination / _MARKER
    _replace(marker, _marker(format, earlier | dataset.documents.keys()), destination / _PART)
    for document_id in sorted(earlier - dataset.documents.keys()):
        queries.unlink(missing_ok=True)
        _remove(documents / document_id, documents)
    for done, (document_id, text) in enumerate(dataset.documents.items(), start=1):
        put(documents / document_id, text.encode())
        if progress is not None:
            progress(done, len(dataset.documents))
    paths = [documents, queries]
    if dataset.chunks is not None:
        paths.append(destination / "chunks.jsonl")
        put(paths[-1], _lines(map(_span_fields, dataset.chunks)))
    _replace(marker, _marker(format, dataset.documents), destination / _PART)
    put(queries, _lines(_query_fields(q) for q in dataset.queries))
    (destination / _PART).unlink(missing_ok=True)
    return tuple(paths)


def _earlier_documents(format: str, destination: Path) -> set[str]:
    if not destination.exists():
        return set()
    if not destination.is_dir():
        raise InputError(f"{destination}: is a file; the destination must be a folder")
    # An import that was killed before its marker was written leaves only these.
    names = {path.name for path in destination.iterdir()}
    if names <= {_PART, "documents"} and not any(destination.glob("documents/*")):
        return set()
    path = destination / _MARKER
    if not path.is_file():
        raise InputError(f"{destination}: is not empty and holds no import; choose a new folder")
    marker = parse_file(_Marker, path)
    if marker.format != format:
        held = f"holds an import of {marker.format!r}, not of {format!r}"
        raise InputError(f"{destination}: {held}; choose another folder")
    return {safe_path(d, f"{path}: documents[{i}]") for i, d in enumerate(marker.documents)}


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data


def _replace(path: Path, data: bytes, part: Path) -> None:
    if _holds(path, data):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(data)
    part.replace(path)


def _remove(path: Path, root: Path) -> None:
    path.unlink(missing_ok=True)
    for parent in path.parents:
        if parent == root or not parent.is_dir() or any(parent.iterdir()):
            return
        parent.rmdir()


def _marker(format: str, documents: Iterable[str]) -> bytes:
    return _lines([{"format": format, "documents": sorted(documents)}])


def _query_fields(query: Query) -> dict[str, Any]:
    return {
        "query_id": query.query_id,
        "query": query.query,
        "gold_spans": [
            *map(_span_fields, query.gold_spans),
            *(_document_fields(d, query.grades.get(d, 1)) for d in query.gold_documents),
        ],
        **({} if query.answer is None else {"answer": query.answer}),
        "tags": list(query.tags),
    }


def _span_fields(span: Chunk | GoldSpan) -> dict[str, Any]:
    return {"document_id": span.document_id, "start": span.start, "end": span.end}


def _document_fields(document_id: str, grade: int) -> dict[str, Any]:
    return {"document_id": document_id} | ({"grade": grade} if grade > 1 else {})


def _lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
