"""Load the documents of a test folder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.config import DocumentsSource, load_config
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading import parser_process
from rag_pipeline.loading.places import Place, place_of
from rag_pipeline.loading.sources import Rejected, SourceFile, scan
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_file


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


def workspace_of(folder: Path, **documents: Any) -> Workspace:
    """Return the workspace of a corpus without queries; its documents are in `documents`."""
    documents = documents or {"path": "documents"}
    return Workspace(load_config(write_file(folder, queries=None, documents=documents)))


@contextmanager
def without_module(name: str) -> Iterator[None]:
    """Hide the module of an extra from this process and its parsers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, None)
        child = f"import sys; sys.modules[{name!r}] = None; {parser_process._CHILD}"
        patch.setattr(parser_process, "_CHILD", child)
        patch.setattr(parser_process, "_started", {})
        yield
        for parser in parser_process._parsers().idle:
            parser.communicate()


def at(document: Document, words: str) -> Place:
    """Return the place of some words in a document."""
    start = document.text.index(words)
    return place_of(document, start, start + len(words))


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
