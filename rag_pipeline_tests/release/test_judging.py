"""What passed its check once is not read again; what changed is."""

from collections import Counter

import pytest

from rag_pipeline import indexing
from rag_pipeline.evaluation import runs
from rag_pipeline.release import judging
from rag_pipeline.release.judging import JUDGES, judge
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents

CHUNKS, CONTEXT, VECTORS = "recursive_150", "recursive_150.none", "recursive_150.none.minilm"
ROWS = {"chunks": CHUNKS, "vector_index": VECTORS}


def build(workspace):
    indexing.update_documents(workspace)
    indexing.update(workspace, "chunks", CHUNKS)
    indexing.update(workspace, "contextualized_chunks", CONTEXT)
    indexing.update(workspace, "vector_index", VECTORS)
    runs.update_queries(workspace)
    return workspace


@pytest.fixture
def built(workspace):
    return build(workspace)


@pytest.fixture
def rows_read(monkeypatch):
    """Return a function that counts the rows that were read since, by table."""
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


def judge_rows(workspace):
    return [judge(workspace, asset, key) for asset, key in ROWS.items()]


def test_the_release_reads_nothing_that_a_check_has_judged(built, rows_read):
    chunks, vectors = built.chunks(CHUNKS).count(), built.vector_index(VECTORS).count()
    assert all(result.passed for result in judge_rows(built))
    assert rows_read() == {
        "documents": len(DOCUMENTS),
        f"chunks.{CHUNKS}": chunks,
        f"vector_index.{VECTORS}": vectors,
    }
    results = judge_rows(Workspace(built.config))
    assert [(r.passed, r.checked) for r in results] == [(True, len(DOCUMENTS))] * 2
    assert rows_read() == {}


def test_after_a_change_the_rows_of_what_has_changed_are_read(tmp_path, built, rows_read):
    judge_rows(built)
    text = DOCUMENTS["policy/travel.md"].replace("180", "250")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    workspace = build(Workspace(built.config))
    rows_read()
    assert all(result.passed for result in judge_rows(workspace))
    of_travel = workspace.chunks(CHUNKS).state()["policy/travel.md"].rows
    assert rows_read() == {
        "documents": 1,
        f"chunks.{CHUNKS}": of_travel,
        f"vector_index.{VECTORS}": of_travel,
    }


def test_a_fault_that_came_after_a_pass_is_found_and_is_not_forgotten(built):
    judge_rows(built)
    table = built.chunks(CHUNKS).open()
    table.update(where="document_id = 'nda/acme.txt' AND start = 0", values={"text": "other"})
    for _ in range(2):
        result = judge(built, "chunks", CHUNKS)
        assert [f.split(":")[0] for f in result.failures] == ["text_differs in 1 of 4"]
    built.vector_index(VECTORS).drop(["nda/acme.txt"])
    (failure,) = judge(built, "vector_index", VECTORS).failures
    assert failure.startswith("rows_missing in 1 of 4: nda/acme.txt")


def test_a_document_that_lost_its_chunks_is_found(built):
    judge_rows(built)
    built.chunks(CHUNKS).drop(["nda/acme.txt"])
    assert judge(built, "chunks", CHUNKS).failures == ("no_chunks in 1 of 4: nda/acme.txt (1)",)


def test_what_other_code_judged_is_judged_again(built, rows_read, monkeypatch):
    judge_rows(built)
    rows_read()
    monkeypatch.setattr(judging, "VERSION", judging.VERSION + 1)
    judge_rows(built)
    assert rows_read()[f"vector_index.{VECTORS}"] == built.vector_index(VECTORS).count()


def test_a_lexical_index_is_judged_once(built, monkeypatch):
    key = "recursive_150.structural"
    indexing.update(built, "contextualized_chunks", key)
    indexing.update_lexical(built, key)
    assert judge(built, "lexical_index", key).passed
    monkeypatch.setattr("rag_pipeline.release.checks.open_lexical_index", None)
    assert judge(built, "lexical_index", key).passed


def test_a_judge_says_what_its_check_expects():
    assert "offsets" in (JUDGES["chunks"].__doc__ or "")
