"""Broken corpus files, queries and given chunks, all through `rag` itself.

A file with a mistake ends in one clear error before anything is spent.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_pipeline.config import load_config
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.config import test_parsing
from rag_pipeline_tests.testing.broken_queries import UNUSABLE_FILES, WRONG_LINES
from rag_pipeline_tests.testing.command_line import Outcome, rag, said
from rag_pipeline_tests.testing.corpora import attributes, write_corpus, write_documents, write_file


def assert_refused(outcome: Outcome, place: object, message: str) -> None:
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err
    assert str(place) in outcome.err
    assert message in outcome.err


# --- corpus files: invalid YAML, or another kind of file ---

FILE = yaml.safe_dump(
    {"type": "rag_pipeline.RagPipeline", "attributes": attributes()}, sort_keys=False
).encode()
BROKEN_YAML: list[tuple[bytes, str]] = [
    (b"", "expected a mapping with"),
    (b"attributes: {", "not valid YAML"),
    (b"\xff\xfe\x00", "not UTF-8 text"),
    (b"type: other.Thing\nattributes: {}\n", "type: 'other.Thing' is not one of: rag_pipeline"),
    (b"type: rag_pipeline.RagPipeline\nattributes: 3\n", "attributes: expected a mapping"),
    (b"a: &a [*a]\n", "an alias inside its own content"),
    (b"!!python/object/apply:os.system ['true']", "not valid YAML"),
    (b"\ttype: x", "not valid YAML"),
    (b"type: *nobody", "not valid YAML"),
    (b"!!timestamp 2024-99-99", "not valid YAML"),
    (b"{" * 5000, "not valid YAML"),
    (b"a: " + b"1" * 5000, "not valid YAML"),
    (FILE.replace(b"  queries:", b"  corpus: two\n  queries:"), "'corpus' occurs twice; rename"),
    (FILE.replace(b"corpus: tiny", b"corpus: caf\xe9"), "not UTF-8 text"),
    (b"null", "expected a mapping"),
    (b"attributes: {}", "type: None is not one of: rag_pipeline.RagPipeline"),
    (b"type: [a]\nattributes: {}", "is not one of: rag_pipeline.RagPipeline"),
    (b"type: rag_pipeline.RagPipeline\nattributes: {}", "corpus: missing"),
    (b"type: rag_pipeline.RagPipeline\nattributes: {1: 2}", "1: 2: Keys should be strings"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN_YAML)
def test_a_file_that_is_not_a_corpus_file(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_bytes(content)
    assert_refused(rag("run", file), file, message)


# --- corpus files: wrong settings ---

# What pydantic refuses is held by config/test_parsing.py; here are one of it and the special ones.
WRONG_SETTINGS: list[tuple[str, Any, str]] = [
    ("corpus", KeyError, "corpus: missing"),
    ("corpus", "../../etc", "corpus: '../../etc'"),
    ("corpus", "x" * 65, "corpus: 'xxx"),
    ("documents", {}, "documents: set either `path`"),
    (
        "documents",
        {"path": "a", "s3": "s3://b/c"},
        "path 'a' and s3 's3://b/c' are set; set either",
    ),
    ("documents", {"s3": "bucket/raw"}, "s3: 'bucket/raw' is not an address like s3://bucket/"),
    ("documents", {"s3": "s3://"}, "documents: s3: 's3://' is not an address"),
    ("documents/max_bytes", "10 MB", "documents.max_bytes: '10 MB'"),
    ("chunkings/x", "fixed", "chunkings.x: 'fixed'"),
    ("chunkings/x", {"method": "semantic", "threshold": float("nan")}, "chunkings.x.threshold"),
    ("chunkings/x", {"method": "semantic", "threshold": float("inf")}, "chunkings.x.threshold"),
    ("chunkings/x", {"method": "semantic", "embedding": "none"}, "'none' is not one of: minilm"),
    (
        "chunkings/3",
        {"method": "markdown", "max_characters": None},
        "set max_characters or max_tokens",
    ),
    ("retrievers/dense/fusion", "rrf", "retrievers.dense.fusion: unknown setting"),
    ("retrievers/dense/top_k", 9, "retrievers.dense.top_k: this setting is called k"),
    ("retrievers/dense/top_n", 9, "retrievers.dense.top_n: this setting is called k,"),
    ("configurations", "all", "configurations: 'all'"),
    ("configurations/1/embedding", "ada", "configurations.1.embedding: 'ada' is not one of"),
    ("configurations/1/rerank", "none", "configurations.1.rerank: unknown setting"),
    ("serve", ["best"], "serve: ['best']"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG_SETTINGS)
def test_a_wrong_setting(tmp_path: Path, path: str, value: Any, message: str) -> None:
    file = tmp_path / "contracts.yaml"
    content = {"type": "rag_pipeline.RagPipeline", "attributes": test_parsing.changed(path, value)}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    assert_refused(rag("run", file), f"{file}: ", message)


# --- files and folders that a valid corpus file names ---


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"documents": {"path": "nowhere"}}, "documents.path: no such file or folder"),
        ({"documents": {"path": "documents", "include": ["*.x"]}}, "none of the 4 files"),
        ({"documents": {"path": "documents", "exclude": ["**"]}}, "none of the 4 files"),
        ({"documents": {"path": "empty"}}, "the folder is empty"),
        ({"documents": {"path": "~nobody-here/x"}}, "~nobody-here/x"),
        ({"documents": {"path": "nul\0byte"}}, "no such file or folder"),
        ({"queries": "nowhere.jsonl"}, "nowhere.jsonl: can't be read: No such file"),
        ({"queries": "~nobody-here/x"}, "~nobody-here/x"),
        ({"queries": "x" * 5000}, "can't be read: File name too long"),
        ({"store": "~nobody-here/x"}, "~nobody-here/x"),
        ({"store": "nul\0byte"}, "store: "),
        ({"queries": "documents"}, "can't be read: Is a directory"),
        ({"store": "queries.jsonl"}, "store: "),
        ({"store": "queries.jsonl/x"}, "store: "),
        ({"store": "ftp://example.org/x"}, "store: ftp://example.org/x"),
    ],
)
def test_a_missing_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    (tmp_path / "empty").mkdir()
    file = write_corpus(tmp_path, **changes)
    assert_refused(rag("run", file), "", message)


# --- queries ---


@pytest.mark.parametrize(("line", "message"), [WRONG_LINES[0], WRONG_LINES[-1]])
def test_a_wrong_query(tmp_path: Path, line: Any, message: str) -> None:
    file = write_corpus(tmp_path)
    queries = tmp_path / "queries.jsonl"
    broken = line if isinstance(line, str) else json.dumps(line)
    queries.write_text(f'{{"query_id": "good", "query": "x"}}\n{broken}\n', encoding="utf-8")
    assert_refused(rag("run", file), f"{queries}:2: ", message)
    assert not (tmp_path / "store").exists(), "nothing is spent on it"


@pytest.mark.parametrize(("raw", "message"), UNUSABLE_FILES)
def test_an_unusable_queries_file(tmp_path: Path, raw: bytes, message: str) -> None:
    file = write_corpus(tmp_path, queries="q.jsonl")
    (tmp_path / "q.jsonl").write_bytes(raw)
    assert_refused(rag("run", file), tmp_path / "q.jsonl", message)


# --- given chunks ---

GIVEN = {"given": {"method": "given"}}
ONLY_GIVEN = [{"chunking": "given", "embedding": "minilm", "retriever": "dense"}]


@pytest.mark.parametrize(
    ("line", "message"), [(b"{", "Invalid JSON"), (b"{}", "document_id: Field required")]
)
def test_a_wrong_given_chunk(tmp_path: Path, line: bytes, message: str) -> None:
    file = write_corpus(tmp_path, chunkings=GIVEN, configurations=ONLY_GIVEN)
    chunks = tmp_path / "chunks.jsonl"
    chunks.write_bytes(b'{"document_id": "nda/acme.txt", "start": 0, "end": 9}\n' + line + b"\n")
    assert_refused(rag("run", file), f"{chunks}:2: ", message)
    assert not (tmp_path / "store").exists()


def test_missing_given_chunks(tmp_path: Path) -> None:
    file = write_corpus(tmp_path, chunkings=GIVEN, configurations=ONLY_GIVEN)
    assert_refused(rag("run", file), "chunkings.given", str(tmp_path / "chunks.jsonl"))


def test_a_given_chunk_outside_its_document_excludes_that_document_only(tmp_path: Path) -> None:
    file = write_corpus(tmp_path, chunkings=GIVEN, configurations=ONLY_GIVEN, queries=None)
    text = "A short text on umbrella stands."
    spans = {
        "beyond.txt": (0, 99),
        "before.txt": (-1, 5),
        "backward.txt": (9, 3),
        "hollow.txt": (4, 4),
        "good.txt": (0, len(text)),
    }
    write_documents(tmp_path / "documents", {name: f"{text} {name}" for name in spans})
    chunks = [{"document_id": n, "start": s, "end": e} for n, (s, e) in spans.items()]
    (tmp_path / "chunks.jsonl").write_text("".join(json.dumps(c) + "\n" for c in chunks))
    write_file(
        tmp_path,
        chunkings={"given": {"method": "given", "path": "chunks.jsonl"}},
        configurations=ONLY_GIVEN,
        queries=None,
    )
    shown = said("run", file)
    assert "4 documents in quarantine" in shown
    workspace = Workspace(load_config(file))
    assert set(workspace.quarantine("chunks.given").state()) == set(spans) - {"good.txt"}
    assert set(workspace.vector_index("given.none.minilm").state()) == {"good.txt"}
