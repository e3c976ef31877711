"""Write a data set to a new folder, which appears only when it is complete."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rag_pipeline.errors import InputError
from rag_pipeline.loading.importers.dataset import DataSet

CopyProgress = Callable[[int, int], None]


def write(
    dataset: DataSet, destination: Path, progress: CopyProgress | None = None
) -> tuple[Path, ...]:
    """Write documents, queries and chunks, and return their paths.

    Raise InputError if the destination is a file or not empty, and OSError if writing fails.
    """
    if destination.exists() and not destination.is_dir():
        raise InputError(f"{destination}: is a file; the destination must be a folder")
    if destination.exists() and any(destination.iterdir()):
        raise InputError(f"{destination}: is not empty; choose a new folder, or delete this one")
    part = destination.with_name(f".{destination.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of an interrupted import
    for done, (document_id, text) in enumerate(dataset.documents.items(), start=1):
        _write(part / "documents" / document_id, text)
        if progress is not None:
            progress(done, len(dataset.documents))
    names = ["documents", "queries.jsonl"]
    _write(part / "queries.jsonl", _lines(dataset.queries))
    if dataset.chunks is not None:
        names.append("chunks.jsonl")
        _write(part / "chunks.jsonl", _lines(dataset.chunks))
    part.replace(destination)
    return tuple(destination / name for name in names)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
