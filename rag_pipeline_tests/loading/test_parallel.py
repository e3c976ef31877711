"""Documents parsed by several processes: in order, each with its own errors."""

import threading
from pathlib import Path

import pytest

from rag_pipeline import indexing
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError, UnreadDocumentError
from rag_pipeline.loading import parser_process
from rag_pipeline.loading.parallel import load_all
from rag_pipeline.loading.sources import SourceFile
from rag_pipeline_tests.loading.test_parser_process import start_anew, with_pdf_parser
from rag_pipeline_tests.testing.scanning import items, workspace_of

MEETING = """(
    open(raw.decode().split()[0] + str(os.getpid()), 'w').close(),
    [__import__('time').sleep(0.01) for _ in range(3000)
     if len(os.listdir(raw.decode().split()[0])) < int(raw.decode().split()[1])],
    parsers.Parsed(str(os.getpid()), ''),
)[2]"""
"""Waits until as many processes as the file names are at a document."""


def listed(folder: Path) -> list[SourceFile]:
    return [one for one in items(folder) if isinstance(one, SourceFile)]


def meeting_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int) -> Path:
    (tmp_path / "met").mkdir()
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(processes):
        (folder / f"{number}.pdf").write_text(f"{tmp_path}/met/ {processes} {number}")
    child = with_pdf_parser("None").replace("lambda *_: None", f"lambda _, raw: {MEETING}")
    start_anew(monkeypatch, child)
    return folder


def test_documents_are_parsed_in_parallel(tmp_path, monkeypatch):
    sources = listed(meeting_of(tmp_path, monkeypatch, 3))
    loaded = [document for _, document in load_all(sources, 3)]
    texts = {document.text for document in loaded if isinstance(document, Document)}
    assert len(texts) == 3, "each by a process of its own"
    parsers = parser_process._parsers()
    assert {str(process.pid) for process in parsers.idle} == texts
    assert not parsers.busy


def test_documents_come_in_the_order_of_the_sources(tmp_path):
    for number in range(200):
        (tmp_path / f"{number:03}.txt").write_text(f"Number {number}")
    (tmp_path / "050.txt").write_bytes(b"")
    sources = listed(tmp_path)
    (tmp_path / "060.txt").write_text("Changed")
    loaded = list(load_all(sources, 4))
    assert [source for source, _ in loaded] == sources
    errors = {n: d for n, (_, d) in enumerate(loaded) if isinstance(d, DocumentError)}
    assert {n: e.reason for n, e in errors.items()} == {
        50: "empty: 0 bytes",
        60: "it changed after it was listed; run again",
    }
    assert isinstance(errors[60], UnreadDocumentError)
    texts = [d.text for _, d in loaded if isinstance(d, Document)]
    assert texts == [f"Number {n}" for n in range(200) if n not in errors]


def test_an_abandoned_load_stops_its_parsers(tmp_path, monkeypatch):
    start_anew(monkeypatch, with_pdf_parser("__import__('time').sleep(600)"))
    for name in ("b.pdf", "c.pdf"):
        (tmp_path / name).write_bytes(b"%PDF-1.4")
    (tmp_path / "a.txt").write_text("Fees")
    loading = load_all(listed(tmp_path) * 40, 2)
    first, document = next(loading)
    assert (first.document_id, isinstance(document, Document)) == ("a.txt", True)
    loading.close()
    parsers = parser_process._parsers()
    assert not parsers.busy
    assert all(process.poll() is not None for process in parsers.idle)
    assert not [t for t in threading.enumerate() if t.name.startswith("load")]


def test_a_corpus_sets_the_number_of_parsers(tmp_path, monkeypatch):
    meeting_of(tmp_path, monkeypatch, 2)
    workspace = workspace_of(tmp_path, path="documents", processes=2)
    assert indexing.update_documents(workspace).documents == 2
    assert len(list((tmp_path / "met").iterdir())) == 2
