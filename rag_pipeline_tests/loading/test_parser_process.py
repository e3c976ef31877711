"""Documents that hang or kill their parser: quarantined alone, and the others go on."""

import subprocess
import sys
from pathlib import Path

import pytest

from rag_pipeline import indexing
from rag_pipeline.datamodels import Document
from rag_pipeline.loading import parser_process
from rag_pipeline_tests.testing.formats import docx_bytes
from rag_pipeline_tests.testing.hostile_pdfs import page_of, stream
from rag_pipeline_tests.testing.scanning import outcomes, workspace_of


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    three_million_letters = b"BT /F 9 Tf " + b"(a)Tj " * 3_000_000 + b"ET"
    (tmp_path / "a.pdf").write_bytes(page_of(stream(three_million_letters)))
    (tmp_path / "b.docx").write_bytes(docx_bytes("Fees"))
    return tmp_path


def start_anew(monkeypatch: pytest.MonkeyPatch, child: str = parser_process._CHILD) -> None:
    monkeypatch.setattr(parser_process, "_CHILD", child)
    monkeypatch.setattr(parser_process, "_started", {})


def with_pdf_parser(parser: str) -> str:
    return (
        f"import os, sys; from rag_pipeline.loading import parsers; "
        f"parsers.PARSERS['.pdf'] = lambda *_: {parser}; {parser_process._CHILD}"
    )


def test_an_idle_parser_ends_with_its_process_and_leaves_nothing_open():
    ask = """
from rag_pipeline.config import DocumentsSource
from rag_pipeline.loading.parser_process import parse_apart
parse_apart("a.html", b"<p>Hi", ".html", DocumentsSource(path="."))
"""
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", ask]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_a_document_that_takes_too_long_is_refused_and_the_next_is_read(slow, monkeypatch):
    start_anew(monkeypatch, with_pdf_parser("__import__('time').sleep(600)"))
    (slow_reason,) = outcomes(slow / "a.pdf", parse_seconds=1.5).values()
    assert slow_reason == ".pdf takes more than 1.5 s to parse; raise documents.parse_seconds"
    (document,) = outcomes(slow / "b.docx").values()
    assert isinstance(document, Document)
    assert document.title == "Fees"


def test_an_endless_page_is_refused_for_its_time_or_its_memory(slow):
    """Which of the limits comes first depends on the machine."""
    (reason,) = outcomes(slow / "a.pdf", parse_seconds=1.5).values()
    assert reason in (
        ".pdf takes more than 1.5 s to parse; raise documents.parse_seconds",
        "the parser of .pdf died (status -6), probably because memory ran out",
    )
    (document,) = outcomes(slow / "b.docx").values()
    assert isinstance(document, Document)
    assert document.title == "Fees"


@pytest.mark.parametrize(
    ("parser", "reason"),
    [
        (
            "os.kill(os.getpid(), 9)",
            "the parser of .pdf was killed, probably because memory ran out",
        ),
        ("os.kill(os.getpid(), 11)", "the parser of .pdf died (status -11)"),
        ("print('Parsing!') or 1 / 0", "corrupt .pdf: division by zero"),
        ("bytearray(3 << 30)", ".pdf needs more memory than is available"),
    ],
)
def test_a_dying_parser_loses_one_document(slow, monkeypatch, parser, reason):
    start_anew(monkeypatch, with_pdf_parser(parser))
    found = outcomes(slow)
    assert found["a.pdf"] == reason
    assert isinstance(found["b.docx"], Document)


def test_one_process_parses_all_documents(slow, monkeypatch):
    told = with_pdf_parser("parsers.Parsed(str(os.getpid()), '')")
    start_anew(monkeypatch, told)
    first, second = (outcomes(slow / "a.pdf")["a.pdf"] for _ in range(2))
    assert isinstance(first, Document)
    assert first == second


def test_a_refused_document_is_tried_again_under_another_limit(tmp_path, monkeypatch):
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "a.txt").write_text("twelve bytes")

    def refused(limit: int) -> dict[str, str]:
        workspace = workspace_of(tmp_path, path="documents", max_bytes=limit)
        return indexing.update_documents(workspace).quarantined

    assert refused(10) == {"a.txt": "oversized: 12 bytes are more than documents.max_bytes, 10"}
    assert refused(10) == {}, "not again under the same"
    assert refused(11) == {"a.txt": "oversized: 12 bytes are more than documents.max_bytes, 11"}
    assert refused(12) == {}
    assert workspace_of(tmp_path).documents().count() == 1
