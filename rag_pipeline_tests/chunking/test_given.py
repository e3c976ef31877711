import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.given import GivenChunking, read_given_chunks
from rag_pipeline.datamodels import Chunk, Document
from rag_pipeline.errors import DocumentError, InputError

DOCUMENT = Document("a.txt", "0" * 64, "ab cd ef ")


def cut(spans: dict[str, list[tuple[int, int]]]) -> list[Chunk]:
    corpus: Any = SimpleNamespace(config=None)
    with patch.object(GivenChunking, "_read", lambda *_: spans):
        return chunk(DOCUMENT, GivenChunking(method="given"), corpus)


def test_given_spans_are_sorted_and_taken_as_they_are() -> None:
    spans = {"a.txt": [(3, 6), (0, 3), (2, 4), (0, 3), (0, 2), (2, 3)], "b.txt": [(0, 100)]}
    found = [(c.document_id, c.start, c.end, c.text) for c in cut(spans)]
    texts = [(0, 2, "ab"), (0, 3, "ab "), (2, 4, " c"), (3, 6, "cd ")]
    assert found == [("a.txt", *text) for text in texts]
    assert cut({"b.txt": [(0, 1)]}) == []


@pytest.mark.parametrize("span", [(0, 10), (-1, 2), (2, 2), (3, 1), (9, 9)])
def test_a_span_outside_the_text_costs_the_document(span: tuple[int, int]) -> None:
    with pytest.raises(DocumentError, match=rf"^a\.txt: given chunk {span[0]}-{span[1]} .* 9 char"):
        cut({"a.txt": [(0, 2), span]})


def test_a_chunks_file_is_read_in_its_order_by_document(tmp_path: Path) -> None:
    path = tmp_path / "chunks.jsonl"
    rows = [
        {"document_id": "b/é.txt", "start": 5, "end": 9, "chunk_id": "x", "text": "ignored"},
        {"document_id": "a.txt", "start": 0, "end": 2},
        {"document_id": "b/é.txt", "start": 0, "end": 5},
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes(("\ufeff" + "\r\n\n".join(lines)).encode())
    assert read_given_chunks(path) == {"b/é.txt": [(5, 9), (0, 5)], "a.txt": [(0, 2)]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "Invalid JSON: "),
        (b'{"document_id": "caf\xe9"}', "Invalid JSON: "),
        (b"[" * 200_000, "Invalid JSON: "),
        (b"9" * 5000, ""),
        (b"[1, 2]", "Input should be an object, got [1, 2]"),
        (b"null", "Input should be an object, got None"),
        (b'{"document_id": "a", "start": 0}', "end: Field required"),
        (b'{"start": 0, "end": 1}', "document_id: Field required"),
        (b'{"document_id": 7, "start": 0, "end": 1}', "document_id: Input should be a valid str"),
        (b'{"document_id": "", "start": 0, "end": 1}', "document_id: String should have at least"),
        (b'{"document_id": "a", "start": "0", "end": 1}', "start: Input should be a valid integer"),
        (b'{"document_id": "a", "start": 0.5, "end": 1}', "start: Input should be a valid integer"),
        (b'{"document_id": "a", "start": 0, "end": true}', "end: Input should be a valid integer"),
        (b'{"document_id": "a", "start": 0, "end": NaN}', "end: Input should be a valid integer"),
        (b'{"document_id": "a", "start": 0, "end": 1e400}', "end: Input should be a valid integer"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "chunks.jsonl"
    path.write_bytes(b'{"document_id": "a", "start": 0, "end": 1}\n\n' + line)
    with pytest.raises(InputError) as raised:
        read_given_chunks(path)
    assert str(raised.value).startswith(f"{path}:3: {message}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: can't be read: No such file"):
        read_given_chunks(tmp_path / "none.jsonl")
