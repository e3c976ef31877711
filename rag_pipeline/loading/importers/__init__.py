"""Import public data sets as `documents/`, `queries.jsonl` and `chunks.jsonl`.

The module of each format reads a `DataSet`.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers import (
    anthropic_contextual,
    beir,
    chroma_chunking,
    contractnli,
    legalbench_rag,
    trec,
)
from rag_pipeline.loading.importers.dataset import DataSet

_READERS: dict[str, Callable[[Path], DataSet]] = {
    "legalbench-rag": legalbench_rag.read,
    "chroma-chunking": chroma_chunking.read,
    "anthropic-contextual": anthropic_contextual.read,
    "contractnli": contractnli.read,
    "beir": beir.read,
    "trec": trec.read,
}
FORMATS: tuple[str, ...] = tuple(_READERS)
CopyProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The numbers and paths of an import.

    `skipped` has a line with the reason for each omitted query, document or chunk. `reanchored`
    counts spans whose offsets or line endings differ from the data set. `paths` are the documents
    folder, the queries file and, if the data set has chunks, the chunks file.
    """

    documents: int
    queries: int
    chunks: int
    skipped: tuple[str, ...]
    reanchored: int
    paths: tuple[Path, ...]


def import_dataset(
    format: str, source: Path, destination: Path, progress: CopyProgress | None = None
) -> ImportReport:
    """Import a public data set. The same source gives the same files, byte for byte.

    Read and check the whole source before writing. `destination` must be new or empty. `progress`
    is called with the number of written documents and the total. Raise InputError for a wrong
    source or destination.
    """
    if format not in _READERS:
        raise InputError(f"format: {format!r} is not one of: {', '.join(FORMATS)}")
    try:
        source.stat()
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: can't be read: {error}") from error
    corpus = (source / "corpus").resolve()
    if destination.resolve().is_relative_to(corpus):
        raise InputError(f"{destination}: is inside {corpus}, the source; choose another folder")
    dataset = _READERS[format](source)
    if not dataset.documents:
        skipped = f"skipped {len(dataset.skipped)}, the first: {[*dataset.skipped, 'none'][0]}"
        raise InputError(f"{source}: it has no documents to import; {skipped}")
    try:
        paths = _write(dataset, destination, progress)
    except OSError as error:
        place = error.filename2 or error.filename or destination
        raise InputError(f"{place}: can't be written: {error.strerror}") from error
    return ImportReport(
        documents=len(dataset.documents),
        queries=len(dataset.queries),
        chunks=len(dataset.chunks or ()),
        skipped=tuple(dataset.skipped),
        reanchored=dataset.reanchored,
        paths=paths,
    )


def _write(dataset: DataSet, destination: Path, progress: CopyProgress | None) -> tuple[Path, ...]:
    """Write documents, queries and chunks. The new folder appears only when it is complete."""
    if destination.exists() and not destination.is_dir():
        raise InputError(f"{destination}: is a file; the destination must be a folder")
    if destination.exists() and any(destination.iterdir()):
        raise InputError(f"{destination}: is not empty; choose a new folder, or delete this one")
    part = destination.with_name(f".{destination.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of an interrupted import
    for done, (document_id, text) in enumerate(dataset.documents.items(), start=1):
        _write_text(part / "documents" / document_id, text)
        if progress is not None:
            progress(done, len(dataset.documents))
    files = {"queries.jsonl": dataset.queries}
    files |= {} if dataset.chunks is None else {"chunks.jsonl": dataset.chunks}
    for name, rows in files.items():
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        _write_text(part / name, "".join(lines))
    part.replace(destination)
    return destination / "documents", *(destination / name for name in files)


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
