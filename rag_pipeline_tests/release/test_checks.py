"""Each blocking check against a table in which exactly its fault was planted."""

from collections import Counter

import pyarrow as pa
import pytest

from rag_pipeline import indexing
from rag_pipeline.evaluation import runs
from rag_pipeline.evaluation.queries import save_queries, update_queries
from rag_pipeline.release import checks
from rag_pipeline.store import Table
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import index
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents

CHUNKS = "recursive_150"
CONTEXT = "recursive_150.none"
VECTORS = "recursive_150.none.minilm"


@pytest.fixture
def built(workspace):
    index(workspace, VECTORS)
    update_queries(workspace)
    return workspace


def test_a_sound_build_passes_every_check(built):
    results = [
        checks.check_documents(built),
        checks.check_queries(built),
        checks.check_queries_complete(built),
        checks.check_chunks(built, CHUNKS),
        checks.check_contextualized_chunks(built, CONTEXT),
        checks.check_vector_index(built, VECTORS),
    ]
    assert all(result.passed for result in results), results
    assert all(result.checked >= 4 for result in results)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"text": "another text"}, "text_differs in 1 of 4: nda/acme.txt (1)"),
        ({"end": 100_000}, "bad_offsets in 1 of 4: nda/acme.txt (1)"),
        ({"start": -1}, "bad_offsets in 1 of 4: nda/acme.txt (1)"),
    ],
)
def test_a_chunk_with_another_text_is_found(built, values, fault):
    table = built.chunks(CHUNKS).open()
    table.update(where="document_id = 'nda/acme.txt' AND start = 0", values=values)
    result = checks.check_chunks(built, CHUNKS)
    assert not result.passed
    assert fault in result.failures


def test_a_repeated_chunk_is_found(built):
    table = built.chunks(CHUNKS)
    table.open().add(table.open().search().where("start = 0").limit(1).to_arrow())
    assert any(f.startswith("duplicate_ids") for f in checks.check_chunks(built, CHUNKS).failures)


def test_a_commit_during_a_check_changes_nothing(built, monkeypatch):
    read = vars(checks)["read_documents"]

    def while_others_commit(*arguments):
        built.documents().drop(["nda/acme.txt"])
        built.chunks(CHUNKS).drop(["nda/acme.txt"])
        return read(*arguments)

    monkeypatch.setattr(checks, "read_documents", while_others_commit)
    assert checks.check_chunks(built, CHUNKS).passed


def test_a_document_without_chunks_is_found(built):
    built.chunks(CHUNKS).drop(["nda/acme.txt"])
    assert checks.check_chunks(built, CHUNKS).failures == ("no_chunks in 1 of 4: nda/acme.txt (1)",)


def test_lost_and_surplus_rows_are_found(built):
    built.contextualized_chunks(CONTEXT).drop(["nda/acme.txt"])
    failures = checks.check_contextualized_chunks(built, CONTEXT).failures
    assert [f.split(" in ")[0] for f in failures] == ["rows_missing"]
    failures = checks.check_vector_index(built, VECTORS).failures
    assert [f.split(" in ")[0] for f in failures] == ["rows_too_many"]


@pytest.mark.parametrize(
    ("vector", "fault"),
    [([0.5] * 384, "not_unit_length in 1 of 4"), ([float("inf")] * 384, "not_finite in 1 of 4")],
)
def test_a_broken_vector_is_found(built, vector, fault):
    table = built.vector_index(VECTORS)
    row = table.open().search().where("start = 0").limit(1).to_arrow()
    column = row.schema.get_field_index("vector")
    kind = row.schema.field("vector")
    broken = row.set_column(column, kind, pa.array([vector], kind.type))
    chunk_id = row.column("chunk_id")[0].as_py()
    table.open().delete(f"chunk_id = '{chunk_id}'")
    table.open().add(broken)
    result = checks.check_vector_index(built, VECTORS)
    assert any(failure.startswith(fault) for failure in result.failures), result


def test_a_query_left_out_is_a_warning(tmp_path, built):
    (tmp_path / "documents/nda/acme.txt").unlink()
    indexing.update_documents(built)
    assert update_queries(built)
    result = checks.check_queries_complete(built)
    assert (result.passed, result.checked, len(result.failures)) == (False, 4, 1)
    assert checks.check_queries(built).passed


def test_a_query_without_two_spans_is_left_out_once(workspace):
    problems = ["query q1: gold_spans.0: gone", "query q1: gold_spans.1: gone"]
    save_queries(workspace, "digest", [], problems, 2)
    assert runs.left_out(workspace).startswith("1 of 2 queries is left out")


def test_nothing_to_check_is_no_failure(workspace):
    assert checks.check_documents(workspace) == checks.CheckResult(passed=True, checked=0)


# --- changed rows alone ---


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
    return [
        checks.INCREMENTAL_CHECKS[asset](workspace, key)
        for asset, key in (("chunks", CHUNKS), ("vector_index", VECTORS))
    ]


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
        result = checks.INCREMENTAL_CHECKS["chunks"](built, CHUNKS)
        assert [f.split(":")[0] for f in result.failures] == ["text_differs in 1 of 4"]
    built.vector_index(VECTORS).drop(["nda/acme.txt"])
    (failure,) = checks.INCREMENTAL_CHECKS["vector_index"](built, VECTORS).failures
    assert failure.startswith("rows_missing in 1 of 4: nda/acme.txt")


def test_a_document_that_lost_its_chunks_is_found(built):
    check_rows(built)
    built.chunks(CHUNKS).drop(["nda/acme.txt"])
    assert checks.INCREMENTAL_CHECKS["chunks"](built, CHUNKS).failures == (
        "no_chunks in 1 of 4: nda/acme.txt (1)",
    )


def test_a_new_version_of_the_checks_reads_every_row(built, rows_read, monkeypatch):
    check_rows(built)
    rows_read()
    monkeypatch.setattr(checks, "VERSION", checks.VERSION + 1)
    check_rows(built)
    assert rows_read()[f"vector_index.{VECTORS}"] == built.vector_index(VECTORS).count()


def test_a_lexical_index_is_checked_once(built, monkeypatch):
    key = "recursive_150.structural"
    index(built, key)
    indexing.update_lexical(built, key)
    assert checks.INCREMENTAL_CHECKS["lexical_index"](built, key).passed
    monkeypatch.setattr("rag_pipeline.release.checks.open_lexical_index", None)
    assert checks.INCREMENTAL_CHECKS["lexical_index"](built, key).passed
