"""Listed documents are hashed, unique, and unchanged when they are loaded."""

import hashlib
import pickle
from pathlib import Path

import pytest

from rag_pipeline.config import DocumentsSource
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.sources import Rejected, SourceFile, scan
from rag_pipeline_tests.testing.formats import docx_bytes, pdf_bytes, xlsx_bytes
from rag_pipeline_tests.testing.scanning import fill, ids, items, outcomes


def test_scan_hashes_as_it_advances(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "b.txt")
    listed = scan(DocumentsSource(path="x"), tmp_path)
    next(listed)
    (tmp_path / "b.txt").unlink()
    assert next(listed) == Rejected(
        "b.txt", "", "cannot read the file: No such file or directory", unread=True
    )


def test_a_changed_or_removed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    sources = [item for item in items(tmp_path) if isinstance(item, SourceFile)]
    (tmp_path / "a.txt").write_text("two")
    (tmp_path / "b.jsonl").write_text('{"text": "three"}\n{"text": "two"}\n')
    for source in sources:
        with pytest.raises(DocumentError, match="it changed after it was listed; run again"):
            source.load()
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DocumentError, match="cannot read the file: No such file"):
        sources[0].load()


def test_sources_can_be_sent_to_another_process(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt")
    (source,) = items(tmp_path)
    assert isinstance(source, SourceFile)
    assert pickle.loads(pickle.dumps(source)).load() == source.load()


def test_one_file_is_a_corpus(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "b.txt")
    assert ids(tmp_path / "a.txt", include=["*.md"]) == ["a.txt"]


def test_every_document_id_is_unique(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "1", "id": "a.jsonl:2"}\n{"text": "2"}\n{broken\n{"text": "3", "id": "b.txt"}\n'
        '{"text": "4", "id": "a.jsonl:3"}'
    )
    (tmp_path / "b.txt").write_text("file")
    listed = items(tmp_path)
    names = [item.document_id for item in listed]
    assert names == sorted(set(names))
    results = outcomes(tmp_path)
    texts = {k: v.text for k, v in results.items() if isinstance(v, Document)}
    assert texts == {"a.jsonl:2": "1", "b.txt": "3", "a.jsonl:3": "4"}
    assert len(results) == 6
    assert all(i.content_hash for i in listed)


def test_truncation_anywhere_gives_a_document_or_a_reason(tmp_path: Path) -> None:
    files = {"a.docx": docx_bytes(), "a.xlsx": xlsx_bytes(), "a.pdf": pdf_bytes("one")}
    for name, raw in files.items():
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
        "oversized: 11 bytes are more than documents.max_bytes, 10",
    )
    assert isinstance(big_json, Rejected)
