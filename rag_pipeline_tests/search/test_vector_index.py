from typing import Any

import numpy as np
import pytest

from rag_pipeline.datamodels import CONTEXTUALIZED_CHUNKS_SCHEMA, rows_of, vector_schema
from rag_pipeline.errors import InputError
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search import vector_index
from rag_pipeline.store import Store


def contextualized(count):
    columns: dict[str, Any] = {
        "document_id": [f"d{n % 7}" for n in range(count)],
        "content_hash": ["h"] * count,
        "fingerprint": ["upstream"] * count,
        "chunk_id": [f"c{n}" for n in range(count)],
        "start": list(range(count)),
        "end": list(range(1, count + 1)),
        "text": [f"text {n}" for n in range(count)],
        "title": ["t"] * count,
        "metadata": ['{"year": 2020}'] * count,
        "context": ["about" if n % 2 else "" for n in range(count)],
    }
    return rows_of(columns, CONTEXTUALIZED_CHUNKS_SCHEMA)


def table_of(tmp_path, vectors):
    """A stored index whose rows have these vectors."""
    table = Store(str(tmp_path), "tiny").table("v", vector_schema(vectors.shape[1]))
    table.ensure()
    made = Embedded(vectors, [b""] * len(vectors))
    batches = vector_index.index_chunks(
        [contextualized(len(vectors))], lambda texts: made, table.schema, "mine"
    )
    table.replace([], list(batches))
    return table


def test_rows_keep_their_columns_and_gain_vector_and_fingerprint():
    seen = []

    def embed(texts):
        seen.extend(texts)
        return Embedded(np.eye(2, 4, dtype=np.float32), [b"", b""])

    (batch,) = vector_index.index_chunks([contextualized(2)], embed, vector_schema(4), "mine")
    assert seen == ["text 0", "text 1\n\nabout"]
    rows = batch.to_pylist()
    assert [row["fingerprint"] for row in rows] == ["mine", "mine"]
    assert rows[1]["vector"] == [0, 1, 0, 0]
    assert rows[1]["context"] == "about"


def test_tokens_are_kept_as_sign_bits_beside_the_distinct_ids():
    ids = np.array([7, 3, 7], np.uint32).tobytes()
    made = Embedded(np.eye(2, 8, dtype=np.float32), [ids + b"\x0f\xf0\x0f", b"\0\0\0\0\xaa"])
    schema = vector_schema(8, token_vectors=True)
    (batch,) = vector_index.index_chunks([contextualized(2)], lambda _: made, schema, "mine")
    assert batch.column("token_vectors").to_pylist() == [b"\x0f\xf0\x0f", b"\xaa"]
    distinct = [np.frombuffer(v, np.uint32) for v in batch.column("token_ids").to_pylist()]
    assert [d.tolist() for d in distinct] == [[3, 7], [0]]


def test_the_nearest_by_cosine_come_first(tmp_path):
    table = table_of(tmp_path, np.eye(4, dtype=np.float32))
    query = np.array([0.1, 0.9, 0.3, 0.0], np.float32)
    found = vector_index.search(table.open(), query, 3)
    assert found.column("chunk_id").to_pylist() == ["c1", "c2", "c0"]
    cosine = 0.9 / np.linalg.norm(query)
    assert 1 - found.column("_distance")[0].as_py() == pytest.approx(cosine, abs=1e-6)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("chunk_id = 'c3'", ["c3"]),
        ("document_id IN ('d0', 'd2')", ["c2", "c0"]),
        ("json_get_int(metadata, 'year') = 2020 AND start >= 2", ["c2", "c3"]),
        ("json_get_int(metadata, 'year') = 1999", []),
    ],
)
def test_a_filter_is_applied_before_ranking(tmp_path, where, ids):
    table = table_of(tmp_path, np.eye(4, dtype=np.float32)).open()
    query = np.array([0.1, 0.9, 0.3, 0.0], np.float32)
    assert vector_index.search(table, query, 2, where).column("chunk_id").to_pylist() == ids
    kept = vector_index.matching(table, where)
    taken = vector_index.take(table, kept, ["chunk_id"]).column("chunk_id").to_pylist()
    assert set(taken) == set(ids)


def test_rows_are_taken_in_the_order_asked_for(tmp_path):
    table = table_of(tmp_path, np.eye(9, dtype=np.float32)).open()
    rows = table.search().select(["chunk_id"]).with_row_id(True).to_arrow()
    ids, row_ids = rows.column("chunk_id").to_pylist(), rows.column("_rowid").to_numpy()
    order = np.array([7, 2, 8, 0, 3])
    taken = vector_index.take(table, row_ids[order], ["chunk_id", "vector"])
    assert taken.column("chunk_id").to_pylist() == [ids[n] for n in order]
    numbers = [int(ids[n].removeprefix("c")) for n in order]
    np.testing.assert_array_equal(vector_index.vectors_of(taken), np.eye(9)[numbers])


def test_a_filter_that_cannot_be_read_is_explained(tmp_path):
    table = table_of(tmp_path, np.eye(4, dtype=np.float32)).open()
    with pytest.raises(InputError, match=r"--where 'nope = 1': .*columns: document_id, title"):
        vector_index.search(table, np.zeros(4, np.float32), 2, "nope = 1")


def test_a_large_table_is_indexed_once_and_still_finds_the_nearest(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "FLAT_ROWS", 2000)
    random = np.random.default_rng(0)
    centres = random.normal(size=(40, 16))
    vectors = (centres[random.integers(0, 40, 3000)] + 0.3 * random.normal(size=(3000, 16))).astype(
        np.float32
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    small = table_of(tmp_path / "small", vectors[:100])
    assert vector_index.maintain(small) == "flat"
    large = table_of(tmp_path / "large", vectors)
    assert vector_index.maintain(large) == "ivf"
    assert vector_index.maintain(large) == "ivf"
    found = hits = 0
    for query in vectors[:50]:
        exact = {f"c{n}" for n in np.argsort(-(vectors @ query))[:10]}
        near = vector_index.search(large.open(), query, 10).column("chunk_id").to_pylist()
        hits += len(exact & set(near))
        found += 10
    assert hits / found >= 0.95
