"""Documents that can't be used; `test_hostile_documents.py` has more of them."""

import hashlib
from pathlib import Path

from rag_pipeline.loading import Rejected, SourceFile
from rag_pipeline_tests.testing.formats import docx_bytes, pdf_bytes, xlsx_bytes
from rag_pipeline_tests.testing.scanning import items, outcomes


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
