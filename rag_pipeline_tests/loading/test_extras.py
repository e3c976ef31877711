"""Documents read without an extra are read again once it is installed."""

from pathlib import Path

import boto3
import pytest

from rag_pipeline import indexing
from rag_pipeline.errors import DocumentError
from rag_pipeline.indexing import listing_digest, read_documents
from rag_pipeline.loading import originals
from rag_pipeline.loading.originals import read_original
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.formats import pdf_bytes
from rag_pipeline_tests.testing.pdf_scans import mixed_pdf
from rag_pipeline_tests.testing.scanning import without_module, workspace_of

LEFT_OUT = "The rent falls due in March."
WHY = "1 read again: the extra 'ocr' was missing and is installed now"


def check_that_it_is_read_again(workspace: Workspace) -> None:
    with without_module("rapidocr"):
        listing = listing_digest(workspace.config)
        assert indexing.update_documents(workspace).documents == 2
        assert indexing.plan_documents(workspace).is_current
        assert indexing.loaded_listing(workspace) == listing
    (partly,) = read_documents(workspace, ["mixed.pdf"])
    assert LEFT_OUT not in partly.text
    loaded = dict(workspace.documents().state())
    assert indexing.loaded_listing(workspace) != listing_digest(workspace.config)
    plan = indexing.plan_documents(workspace)
    assert (plan.stale, plan.why) == (("mixed.pdf",), WHY)
    assert indexing.update_documents(workspace).documents == 1
    (whole,) = read_documents(workspace, ["mixed.pdf"])
    assert LEFT_OUT in whole.text
    assert indexing.plan_documents(workspace).is_current
    state = workspace.documents().state()
    assert state["notes.txt"] == loaded["notes.txt"]
    # The new hash makes everything after the document stale.
    assert state["mixed.pdf"].content_hash != loaded["mixed.pdf"].content_hash
    with without_module("rapidocr"):
        assert indexing.plan_documents(workspace).is_current, "what has more is not taken back"


def test_unread_pages_of_a_file_are_read_with_the_extra(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "mixed.pdf").write_bytes(mixed_pdf())
    (folder / "notes.txt").write_text("Keys are with the porter.")
    check_that_it_is_read_again(workspace_of(tmp_path))


def test_unread_pages_of_an_object_are_read_with_the_extra(bucket: str, tmp_path: Path) -> None:
    client = boto3.client("s3")
    for name, raw in {"mixed.pdf": mixed_pdf(), "notes.txt": b"Keys are with the porter."}.items():
        client.put_object(Bucket="bucket", Key=f"raw/{name}", Body=raw)
    check_that_it_is_read_again(workspace_of(tmp_path, s3="s3://bucket/raw"))


def test_the_original_is_the_version_that_was_read(bucket: str, tmp_path: Path) -> None:
    raw = pdf_bytes("Fees are due.")
    client = boto3.client("s3")
    client.put_object(Bucket="bucket", Key="raw/fees.pdf", Body=raw)
    workspace = workspace_of(tmp_path, s3="s3://bucket/raw")
    indexing.update_documents(workspace)
    (document,) = read_documents(workspace, ["fees.pdf"])
    settings = workspace.config.documents
    assert read_original(document, settings, tmp_path) == raw
    client.put_object(Bucket="bucket", Key="raw/fees.pdf", Body=raw + b"\n")
    originals._object.cache_clear()
    with pytest.raises(DocumentError, match="the file has changed since it was read"):
        read_original(document, settings, tmp_path)
    client.delete_object(Bucket="bucket", Key="raw/fees.pdf")
    other = settings.model_copy(update={"s3": "s3://bucket/raw/"})  # another address, none cached
    with pytest.raises(DocumentError, match=r"cannot read s3://bucket/raw/fees.pdf: NoSuch"):
        read_original(document, other, tmp_path)
