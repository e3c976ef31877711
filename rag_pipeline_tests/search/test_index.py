"""The reads of an index that is opened while another is open."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search import index as module
from rag_pipeline.search import vector_index
from rag_pipeline.search.index import Index
from rag_pipeline.search.mapped import MappedFolder
from rag_pipeline.store import Store
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA, rows_of, vector_schema
from rag_pipeline_tests.testing.search_index import (
    DIMENSION,
    given,
    index_of,
    random_chunks,
    signs_of,
)


@pytest.fixture
def rows():
    return random_chunks()


@pytest.fixture
def index(rows, tmp_path):
    return index_of(tmp_path, rows)


@pytest.fixture
def table(index, tmp_path):
    return Store(str(tmp_path), "tiny").table("v", vector_schema(DIMENSION, token_vectors=True))


@pytest.fixture
def read(monkeypatch):
    """The number of vectors of each batch that was read from a table."""
    counts = []
    vectors_of = vector_index.vectors_of

    def counted(rows):
        counts.append(len(rows))
        return vectors_of(rows)

    monkeypatch.setattr(vector_index, "vectors_of", counted)
    return counts


def embed_again(table, rows):
    """Replace chunks by the same chunks with other vectors."""
    columns = {name: [row[name] for row in rows] for name in CONTEXTUALIZED_CHUNKS_SCHEMA.names}
    batch = rows_of(columns, CONTEXTUALIZED_CHUNKS_SCHEMA)
    vectors = np.full((len(rows), DIMENSION), 0.25, np.float32)
    made = Embedded(vectors, [signs_of(row["chunk_id"]) for row in rows])
    made_rows = vector_index.index_chunks([batch], partial(given, made), table.schema, "f")
    table.replace(sorted({row["document_id"] for row in rows}), made_rows)


def test_vectors_of_files_that_both_have_are_not_read_again(index, table, rows, read):
    embed_again(table, [row for row in rows if row["document_id"] == "name3.txt"])
    table.drop(["name5.txt"])
    after = Index.open(table.dataset(), None, index)
    assert sum(read) == 6, "the changed document's chunks"
    whole = Index.open(table.dataset(), None)
    assert sum(read) == 6 + len(whole) == 6 + len(rows) - 6
    assert np.array_equal(after.vectors, whole.vectors)
    changed = after.at([row["chunk_id"] for row in rows if row["document_id"] == "name3.txt"])
    assert (after.vectors[changed] == 0.25).all()

    read.clear()
    back = Index.open(table.dataset(index.table.version), None, after)
    assert sum(read) == 12, "of the earlier version, what the later one has not"
    assert np.array_equal(back.vectors, index.vectors)


def test_rows_with_the_same_numbers_in_another_table_are_read(index, rows, tmp_path, read):
    other = index_of(tmp_path / "other", rows)
    assert sorted(other.row_ids) == sorted(index.row_ids)
    read.clear()
    Index.open(other.table, None, index)
    assert sum(read) == len(rows)


def test_where_much_is_new_all_is_read(index, table, rows, read, monkeypatch):
    monkeypatch.setattr("rag_pipeline.search.index._TAKEN", 5)
    embed_again(table, rows[:6])
    after = Index.open(table.dataset(), None, index)
    assert sum(read) == len(rows)
    assert np.array_equal(after.vectors, Index.open(table.dataset(), None).vectors)


def test_a_server_reads_the_same_rows(index, monkeypatch):
    positions = np.array([5, 0, 33])
    columns = ["chunk_id", "text", "metadata", "token_vectors"]
    rows = index.take(positions, columns).select(columns).to_pylist()
    assert len(rows) == 3
    in_memory = index.for_server()
    assert in_memory.rows.num_rows == len(index)
    assert in_memory.take(positions, columns).to_pylist() == rows
    # Other columns, and all rows of a larger table, are read from disk.
    assert in_memory.take(positions, ["vector"]).num_rows == 3
    monkeypatch.setattr(module, "RESIDENT_BYTES", in_memory.rows.nbytes // 2)
    from_disk = index.for_server()
    assert from_disk.rows is None
    assert from_disk.take(positions, columns).to_pylist() == rows


def test_processes_of_a_server_map_the_same_files(index, tmp_path):
    mapped = MappedFolder(tmp_path / "mapped")
    positions, columns = np.array([5, 0, 33]), ["chunk_id", "text", "token_vectors"]
    rows = index.take(positions, columns).select(columns).to_pylist()
    vectors = index.vectors.copy()
    first, second = index.for_server(mapped), index.for_server(mapped)
    for one in (first, second):
        assert one.take(positions, columns).to_pylist() == rows
        assert np.array_equal(one.vectors, vectors)
        assert not one.vectors.flags.owndata and not one.vectors.flags.writeable
    before = pa.total_allocated_bytes()
    assert index.for_server(mapped).rows.nbytes > 0
    assert pa.total_allocated_bytes() == before  # nothing was copied into memory
    mapped.keep_only([index.name])
    assert {f.suffix for f in mapped.path.iterdir()} == {".npy", ".arrow", ".lock"}
    mapped.keep_only(["a newer one"])
    assert {f.suffix for f in mapped.path.iterdir()} == {".lock"}
    assert second.take(positions, columns).to_pylist() == rows
