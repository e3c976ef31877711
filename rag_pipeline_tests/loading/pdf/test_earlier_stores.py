"""What an earlier parser read is stale once, and only that."""

import hashlib
from pathlib import Path

import pyarrow as pa

from rag_pipeline import indexing
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import DOCUMENTS_SCHEMA, Document
from rag_pipeline.indexing import document_rows
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import write_file
from rag_pipeline_tests.testing.formats import docx_bytes, pdf_bytes


def test_pdfs_of_an_earlier_store_are_read_again_and_the_rest_is_current(tmp_path: Path):
    folder = tmp_path / "documents"
    folder.mkdir()
    files = {"a.pdf": pdf_bytes("Fees are due."), "b.docx": docx_bytes("Fees"), "c.txt": b"Fees"}
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    file = write_file(tmp_path, queries=None, documents={"path": "documents"})
    workspace = Workspace(load_config(file))
    # As an earlier version left it: hashes of the bytes alone, and no column for pages.
    earlier = DOCUMENTS_SCHEMA.remove(DOCUMENTS_SCHEMA.get_field_index("page_map"))
    table = workspace.store.table("documents", earlier)
    table.ensure()
    documents = [
        Document(name, hashlib.sha256(raw).hexdigest(), "Fees") for name, raw in files.items()
    ]
    rows = document_rows(documents, workspace.config.documents_fingerprint(), dict.fromkeys(files))
    table.replace([], [pa.RecordBatch.from_arrays(rows.columns[:-1], schema=earlier)])

    plan = indexing.plan_documents(workspace)
    assert plan.stale == ("a.pdf",)
    assert plan.why == "1 PDF is read again: its parser is a newer one"
    report = indexing.update_documents(workspace)
    assert report.documents == 1
    assert indexing.plan_documents(workspace).is_current
    (row,) = [
        row
        for batch in workspace.documents().read(["document_id", "text", "page_map"])
        for row in batch.to_pylist()
        if row["page_map"] is not None
    ]
    assert (row["document_id"], row["text"]) == ("a.pdf", "Fees are due.")
