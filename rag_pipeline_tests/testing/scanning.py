"""Load the documents of a test folder."""

from pathlib import Path
from typing import Any

from rag_pipeline.config import DocumentsSource
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading import Rejected, SourceFile, scan
from rag_pipeline.loading.places import Place, place_of


def items(root: Path, **settings: Any) -> list[SourceFile | Rejected]:
    return list(scan(DocumentsSource(path=str(root), **settings), root))


def ids(root: Path, **settings: Any) -> list[str]:
    return [item.document_id for item in items(root, **settings)]


def outcomes(root: Path, **settings: Any) -> dict[str, Document | str]:
    """Load everything: a document or the reason why there is none, by document_id."""
    results: dict[str, Document | str] = {}
    for item in items(root, **settings):
        if isinstance(item, Rejected):
            results[item.document_id] = item.reason
            continue
        try:
            results[item.document_id] = item.load()
        except DocumentError as error:
            assert error.document_id == item.document_id
            results[item.document_id] = error.reason
    return results


def load(path: Path, raw: bytes | str, **settings: Any) -> Document:
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    (document,) = outcomes(path, **settings).values()
    assert isinstance(document, Document), document
    return document


def at(document: Document, words: str) -> Place:
    """Return the place of some words in a document."""
    start = document.text.index(words)
    return place_of(document, start, start + len(words))


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
