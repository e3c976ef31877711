"""Checks read changed rows only."""

from collections import Counter

import pytest

from rag_pipeline import indexing
from rag_pipeline.release import incremental_checks
from rag_pipeline.release.incremental_checks import run_check
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import index
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents

CHUNKS, VECTORS = "recursive_150", "recursive_150.none.minilm"
ROWS = {"chunks": CHUNKS, "vector_index": VECTORS}


@pytest.fixture
def built(workspace):
    index(workspace, VECTORS)
    return workspace


@pytest.fixture
def rows_read(monkeypatch):
    """Return a function that counts the rows read since its last call, by table."""
    counts: Counter[str] = Counter()
    read = Table.read

    def counted(self, *arguments, **named):
        for batch in read(self, *arguments, **named):
            counts[self.name] += batch.num_rows
            yield batch

    monkeypatch.setattr(Table, "read", counted)

    def since():
        found = dict(counts)
        counts.clear()
        return found

    return since


def check_rows(workspace):
    return [run_check(workspace, asset, key) for asset, key in ROWS.items()]


def test_rows_that_passed_are_not_read_again(built, rows_read):
    chunks, vectors = built.chunks(CHUNKS).count(), built.vector_index(VECTORS).count()
    assert all(result.passed for result in check_rows(built))
    assert rows_read() == {
        "documents": len(DOCUMENTS),
        f"chunks.{CHUNKS}": chunks,
        f"vector_index.{VECTORS}": vectors,
    }
    results = check_rows(Workspace(built.config))
    assert [(r.passed, r.checked) for r in results] == [(True, len(DOCUMENTS))] * 2
    assert rows_read() == {}


def test_only_changed_documents_are_read_after_a_change(tmp_path, built, rows_read):
    check_rows(built)
    text = DOCUMENTS["policy/travel.md"].replace("180", "250")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    workspace = Workspace(built.config)
    index(workspace, VECTORS)
    rows_read()
    assert all(result.passed for result in check_rows(workspace))
    of_travel = workspace.chunks(CHUNKS).state()["policy/travel.md"].rows
    assert rows_read() == {
        "documents": 1,
        f"chunks.{CHUNKS}": of_travel,
        f"vector_index.{VECTORS}": of_travel,
    }


def test_a_fault_after_a_pass_is_found_every_time(built):
    check_rows(built)
    table = built.chunks(CHUNKS).open()
    table.update(where="document_id = 'nda/acme.txt' AND start = 0", values={"text": "other"})
    for _ in range(2):
        result = run_check(built, "chunks", CHUNKS)
        assert [f.split(":")[0] for f in result.failures] == ["text_differs in 1 of 4"]
    built.vector_index(VECTORS).drop(["nda/acme.txt"])
    (failure,) = run_check(built, "vector_index", VECTORS).failures
    assert failure.startswith("rows_missing in 1 of 4: nda/acme.txt")


def test_a_document_that_lost_its_chunks_is_found(built):
    check_rows(built)
    built.chunks(CHUNKS).drop(["nda/acme.txt"])
    assert run_check(built, "chunks", CHUNKS).failures == ("no_chunks in 1 of 4: nda/acme.txt (1)",)


def test_a_new_version_of_the_checks_reads_every_row(built, rows_read, monkeypatch):
    check_rows(built)
    rows_read()
    monkeypatch.setattr(incremental_checks, "VERSION", incremental_checks.VERSION + 1)
    check_rows(built)
    assert rows_read()[f"vector_index.{VECTORS}"] == built.vector_index(VECTORS).count()


def test_a_lexical_index_is_checked_once(built, monkeypatch):
    key = "recursive_150.structural"
    index(built, key)
    indexing.update_lexical(built, key)
    assert run_check(built, "lexical_index", key).passed
    monkeypatch.setattr("rag_pipeline.release.checks.open_lexical_index", None)
    assert run_check(built, "lexical_index", key).passed
