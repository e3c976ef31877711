"""JSON and JSON Lines -> documents."""

import hashlib
import json
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.datamodels import Document
from rag_pipeline_tests.testing.scanning import outcomes


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_json_text_round_trips_or_is_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text(json.dumps({"text": text}), encoding="utf-8")
        (result,) = outcomes(path).values()
    if isinstance(result, Document):
        assert result.text == text
        assert pa.array([result.text, result.title]).to_pylist() == [text, result.title]
    else:
        assert "\x00" in text or not text.strip("\ufeff\u200b").strip()


def test_json_documents(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"text": "One", "title": "T"}')
    (tmp_path / "many.json").write_bytes(
        '\ufeff [ {"text": "é", "id": "mine"} ,\n{"text":"Zwei"}, 3]'.encode()
    )
    (tmp_path / "raw.json").write_text('{"name": "x"}\n')
    (tmp_path / "list.json").write_text("[1, 2]")
    results = outcomes(tmp_path)
    assert list(results) == sorted(results)
    reason = results.pop("many.json:2")
    assert reason == "expected a JSON object, not int"
    documents = {k: v for k, v in results.items() if isinstance(v, Document)}
    assert {k: v.text for k, v in documents.items()} == {
        "list.json": "[1, 2]",
        "many.json:1": "Zwei",
        "mine": "é",
        "one.json": "One",
        "raw.json": '{"name": "x"}\n',
    }
    assert documents["one.json"].title == "T"
    zwei = documents["many.json:1"]
    assert zwei.content_hash == hashlib.sha256(b'{"text":"Zwei"}').hexdigest()
    assert documents["raw.json"].media_type == "application/json"


def test_json_lines_survive_their_broken_neighbours(tmp_path: Path) -> None:
    good = json.dumps(
        {
            "id": 7,
            "text": "Sieben",
            "title": " The  title ",
            "year": 2024,
            "big": 2**70,
            "list": [1, "é"],
            "none": None,
            "metadata": {"year": 2025, "a": {"b": 1}, "s": "x\u0000\ud800"},
        }
    )
    lines = [
        '\ufeff{"text": "first"}',
        good,
        "",
        "{broken",
        '{"text": 5}',
        '{"text": "\\ud800"}',
        '{"text": "' + "x" * 300 + '"}',
        '{"text": "again", "document_id": "7"}',
        '{"document_id": "last", "text": "end"}',
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "d.jsonl").write_bytes("\r\n".join(lines).encode())
    (tmp_path / "in" / "e.txt").write_text("other")
    results = outcomes(tmp_path, max_bytes=len(good.encode()))
    assert {k: v for k, v in results.items() if isinstance(v, str)} == {
        "in/d.jsonl:4": "not valid JSON: Expecting property name enclosed in double quotes "
        "(line 1, column 2)",
        "in/d.jsonl:5": "text: 5: expected a string",
        "in/d.jsonl:6": "not valid text: lone surrogate at offset 0",
        "in/d.jsonl:7": "oversized: 314 bytes are more than documents.max_bytes, "
        f"{len(good.encode())}",
        "in/d.jsonl:8": "duplicate document_id '7': in/d.jsonl:2 already has it",
    }
    documents = {k: v for k, v in results.items() if isinstance(v, Document)}
    assert list(documents) == ["7", "in/d.jsonl:1", "in/e.txt", "last"]
    seven = documents["7"]
    assert seven.content_hash == hashlib.sha256(good.encode()).hexdigest()
    assert (seven.text, seven.title) == ("Sieben", "The title")
    assert seven.metadata == {
        "language": "de",
        "year": 2025,
        "big": str(2**70),
        "list": '[1, "é"]',
        "a": '{"b": 1}',
        "s": "x\ufffd\ufffd",
        "folder": "in",
        "suffix": ".jsonl",
        "bytes": len(good.encode()),
    }
