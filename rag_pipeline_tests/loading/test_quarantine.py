"""Documents that can't be used: one bad file never costs a good one."""

import hashlib
from pathlib import Path

import pytest

from rag_pipeline.datamodels import Document
from rag_pipeline.loading import Rejected, SourceFile
from rag_pipeline_tests.testing.broken_documents import BROKEN, BROKEN_LINES
from rag_pipeline_tests.testing.formats import docx_bytes, pdf_bytes, xlsx_bytes
from rag_pipeline_tests.testing.scanning import items, outcomes


@pytest.mark.parametrize(("name", "raw", "reason"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_broken_files_are_quarantined_in_silence(
    tmp_path: Path,
    name: str,
    raw: bytes,
    reason: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    recwarn: pytest.WarningsRecorder,
) -> None:
    (tmp_path / name).write_bytes(raw)
    (tmp_path / "good.txt").write_text("good")
    results = outcomes(tmp_path, max_bytes=2_000_000)
    assert isinstance(results.pop("good.txt"), Document)
    assert list(results) == [name]
    said = results[name]
    assert isinstance(said, str)
    assert reason in said
    assert "\n" not in said
    assert len(said) < 300
    assert capfd.readouterr() == ("", "")
    assert (caplog.text, list(recwarn)) == ("", [])


@pytest.mark.parametrize(("line", "reason"), BROKEN_LINES)
def test_broken_lines_are_quarantined_alone(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"text": "before"}\n' + line + b'\n{"text": "after"}')
    results = outcomes(path)
    said = results.pop("d.jsonl:2")
    assert isinstance(said, str)
    assert reason in said
    assert {k: v.text for k, v in results.items() if isinstance(v, Document)} == {
        "d.jsonl:1": "before",
        "d.jsonl:3": "after",
    }


def test_truncation_anywhere_gives_a_document_or_a_reason(tmp_path: Path) -> None:
    for name, raw in (
        ("a.docx", docx_bytes()),
        ("a.xlsx", xlsx_bytes()),
        ("a.pdf", pdf_bytes("one")),
    ):
        for part in range(1, 8):
            (tmp_path / f"{part}-{name}").write_bytes(raw[: len(raw) * part // 8])
    results = outcomes(tmp_path)
    assert len(results) == 21
    assert all(isinstance(r, str) and r.startswith("corrupt ") for r in results.values())


def test_oversized_files_are_refused_by_hash_alone(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_text("[1, 2, 3, 4, 5]")
    (tmp_path / "big.txt").write_bytes(b"x" * 11)
    (tmp_path / "fits.txt").write_bytes(b"x" * 10)
    big_json, big_text, fits = items(tmp_path, max_bytes=10)
    assert isinstance(fits, SourceFile)
    assert fits.n_bytes == 10
    assert big_text == Rejected(
        "big.txt",
        hashlib.sha256(b"x" * 11).hexdigest(),
        "oversized: 11 bytes, and documents.max_bytes is 10",
    )
    assert isinstance(big_json, Rejected)
