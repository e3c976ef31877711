"""Files that have not changed since they were read are not opened again."""

import json
import os
import sys
import time

import pytest

from rag_pipeline import indexing
from rag_pipeline.config import DocumentsSource
from rag_pipeline.loading import extras
from rag_pipeline.loading.seen import RACY_NS, SeenFiles
from rag_pipeline.loading.sources import SourceFile, scan
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents

_opened: list[str] = []


def _note(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        _opened.append(arguments[0])


sys.addaudithook(_note)


@pytest.fixture
def documents(tmp_path):
    return tmp_path / "documents"


@pytest.fixture
def opened(documents):
    """Return a function that names the documents opened since it was called last."""

    def since():
        found = [path for path in _opened if path.startswith(f"{documents}/")]
        _opened.clear()
        return sorted({path.removeprefix(f"{documents}/") for path in found})

    since()
    return since


@pytest.fixture
def later(monkeypatch):
    """Read files later than they were written: nobody can set a ctime, so the clock goes on."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 2 * RACY_NS)


def test_the_plan_of_an_unchanged_corpus_opens_no_document(workspace, opened, later, monkeypatch):
    indexing.update_documents(workspace)
    assert set(opened()) == set(DOCUMENTS)
    # Nor is an extra looked for: that takes the time of a dozen files.
    with monkeypatch.context() as patched:
        patched.setattr(extras, "is_installed", None)
        assert indexing.plan_documents(workspace).is_current
    indexing.update_documents(workspace)
    assert opened() == []


def test_a_file_written_just_before_reading_is_read_again(workspace, opened):
    indexing.update_documents(workspace)
    opened()
    assert indexing.plan_documents(workspace).is_current
    assert opened() == sorted(DOCUMENTS)


def test_an_edit_of_the_same_size_and_time_is_seen(workspace, documents, opened, later):
    indexing.update_documents(workspace)
    file = documents / "policy/travel.md"
    before = file.stat()
    text = DOCUMENTS["policy/travel.md"].replace("180", "250")
    opened()

    write_documents(documents, {"policy/travel.md": text})
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    now = file.stat()
    same = (before.st_size, before.st_mtime_ns, before.st_ino)
    assert (now.st_size, now.st_mtime_ns, now.st_ino) == same
    assert indexing.plan_documents(workspace).stale == ("policy/travel.md",)
    assert opened() == ["policy/travel.md"]


def test_a_file_that_replaces_another_is_seen(workspace, documents, later):
    indexing.update_documents(workspace)
    file = documents / "policy/travel.md"
    before = file.stat()
    other = documents / "policy/.other"
    other.write_text(DOCUMENTS["policy/travel.md"].replace("180", "250"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(file)
    assert file.stat().st_ino != before.st_ino
    assert indexing.plan_documents(workspace).stale == ("policy/travel.md",)


def test_records_are_remembered_without_reading_their_file(tmp_path, opened, documents, later):
    documents.mkdir()
    lines = [{"id": "a", "text": "One."}, {"id": "b"}, {"id": "a", "text": "Twice."}]
    (documents / "all.jsonl").write_text("\n".join(map(json.dumps, lines)))
    seen = SeenFiles(tmp_path / "files.sqlite", "root")
    first = list(scan(DocumentsSource(path="."), documents, seen))
    opened()
    seen = SeenFiles(tmp_path / "files.sqlite", "root")
    assert list(scan(DocumentsSource(path="."), documents, seen)) == first
    assert opened() == []
    assert [(s.document_id, isinstance(s, SourceFile)) for s in first] == [
        ("a", True),
        ("all.jsonl:2", False),
        ("all.jsonl:3", False),
    ]
    smaller = SeenFiles(tmp_path / "files.sqlite", "root", how="other settings")
    list(scan(DocumentsSource(path="."), documents, smaller))
    assert opened() == ["all.jsonl"]


def test_the_cache_may_be_damaged_lost_or_outdated(tmp_path, documents, opened, later):
    write_documents(documents, {"a.txt": "One.", "b.txt": "Two."})
    kept = tmp_path / "files.sqlite"

    def names():
        seen = SeenFiles(kept, "root")
        return [s.document_id for s in scan(DocumentsSource(path="."), documents, seen)]

    assert names() == ["a.txt", "b.txt"]
    (documents / "a.txt").unlink()
    opened()
    assert names() == ["b.txt"]
    assert opened() == []
    assert SeenFiles(kept, "root")._read().keys() == {"b.txt"}
    kept.write_bytes(b"torn")
    assert names() == ["b.txt"]
    assert opened() == ["b.txt"]
