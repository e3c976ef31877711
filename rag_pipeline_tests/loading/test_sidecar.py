"""Titles and metadata from a file beside the documents: read, loaded, filtered by, changed."""

from pathlib import Path

import pytest

from rag_pipeline import Corpus
from rag_pipeline.config import load_config
from rag_pipeline.errors import InputError
from rag_pipeline.indexing.documents import plan_documents
from rag_pipeline.loading.sidecar import read_sidecar
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_corpus

CSV = 'document_id,title,access,year\r\npolicy/leave.md,"Leave, and\nsick leave",hr,2024\n'
JSONL = '{"document_id": "policy/leave.md", "access": ["hr", "legal"], "year": 2024, "x": null}\n'


def test_a_table_saved_by_excel_is_read_in_its_encoding(tmp_path):
    (tmp_path / "d.csv").write_bytes("document_id,title\na.txt,Größe und Maße\n".encode("cp1252"))
    assert read_sidecar(tmp_path / "d.csv")["a.txt"].title == "Größe und Maße"


@pytest.mark.parametrize(
    ("name", "text", "title", "metadata"),
    [
        ("d.csv", CSV, "Leave, and sick leave", {"access": "hr", "year": "2024"}),
        ("d.jsonl", JSONL, "", {"access": '["hr", "legal"]', "year": 2024}),
    ],
)
def test_one_line_per_document(tmp_path, name, text, title, metadata):
    (tmp_path / name).write_text(text, newline="")
    (found,) = read_sidecar(tmp_path / name).values()
    assert (found.title, found.metadata) == (title, metadata)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("d.csv", "id,title\na,b\n", "d.csv:1: no column document_id, only: id, title"),
        ("d.csv", "document_id\na,b\n", "d.csv:2: more values than columns"),
        ("d.csv", 'document_id\n"a"b\n', "d.csv:2: not CSV"),
        ("d.csv", "document_id,x\n,b\n", "d.csv:2: document_id: '': expected a document's id"),
        (
            "d.jsonl",
            '{"document_id": "a"}\n\n{"document_id": "a"}',
            "d.jsonl:3: .*already has a line",
        ),
        ("d.jsonl", "[1]", "d.jsonl:1: Input should be an object"),
        ("d.jsonl", "{", "d.jsonl:1: Invalid JSON"),
        ("d.txt", "", "expected a .csv or .jsonl file"),
        ("gone.csv", None, "gone.csv: cannot read the file: No such file"),
    ],
)
def test_mistakes_name_line_and_value(tmp_path: Path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_sidecar(tmp_path / name)


def test_metadata_filters_documents_and_a_changed_line_reloads_one(tmp_path, run_all):
    sidecar = tmp_path / "documents" / "documents.csv"
    file = write_corpus(tmp_path, documents={"path": "documents", "metadata": str(sidecar)})
    sidecar.write_text("document_id,title,access\npolicy/travel.md,Trips,hr\n")
    run_all(file)
    workspace = Workspace(load_config(file))
    assert "documents.csv" not in workspace.documents().state(), "it is no document"
    assert plan_documents(workspace).is_current
    corpus = Corpus.load(file)
    (found,) = {
        (c.document_id, c.title)
        for c in corpus.search("leave", k=9, where="json_get_string(metadata, 'access') = 'hr'")
    }
    assert found == ("policy/travel.md", "Trips")

    sidecar.write_text("document_id,title,access\npolicy/travel.md,Trips,all\n")
    assert plan_documents(Workspace(load_config(file))).stale == ("policy/travel.md",)
