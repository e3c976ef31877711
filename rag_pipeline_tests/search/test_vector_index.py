from typing import Any

import numpy as np
import pytest

from benchmarks import bench_nights
from benchmarks.bench_nights import nights, worn
from rag_pipeline.errors import InputError
from rag_pipeline.models.embedding import Embedded
from rag_pipeline.search import vector_index
from rag_pipeline.search.vector_index import language_axes, sampled, without_axes
from rag_pipeline.store import Store, lance, tables
from rag_pipeline.store.schemas import CONTEXTUALIZED_CHUNKS_SCHEMA, rows_of, vector_schema


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
    add(table, vectors)
    return table


def add(table, vectors):
    made = Embedded(vectors.astype(np.float32), [b""] * len(vectors))
    chunks = [contextualized(len(vectors))]
    table.replace([], list(vector_index.index_chunks(chunks, lambda _: made, table.schema, "mine")))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


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
    found = vector_index.search(table.dataset(), query, 3)
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
    table = table_of(tmp_path, np.eye(4, dtype=np.float32)).dataset()
    query = np.array([0.1, 0.9, 0.3, 0.0], np.float32)
    assert vector_index.search(table, query, 2, where).column("chunk_id").to_pylist() == ids
    kept = vector_index.matching(table, where)
    taken = vector_index.take(table, kept, ["chunk_id"]).column("chunk_id").to_pylist()
    assert set(taken) == set(ids)


def test_rows_are_taken_in_the_order_asked_for(tmp_path):
    table = table_of(tmp_path, np.eye(9, dtype=np.float32)).dataset()
    rows = table.to_table(["chunk_id"], with_row_id=True)
    ids, row_ids = rows.column("chunk_id").to_pylist(), rows.column("_rowid").to_numpy()
    order = np.array([7, 2, 8, 0, 3])
    taken = vector_index.take(table, row_ids[order], ["chunk_id", "vector"])
    assert taken.column("chunk_id").to_pylist() == [ids[n] for n in order]
    numbers = [int(ids[n].removeprefix("c")) for n in order]
    np.testing.assert_array_equal(vector_index.vectors_of(taken), np.eye(9)[numbers])


def test_a_filter_that_cannot_be_read_is_explained(tmp_path):
    table = table_of(tmp_path, np.eye(4, dtype=np.float32)).dataset()
    with pytest.raises(InputError, match=r"--where 'nope = 1': .*No field named nope"):
        vector_index.search(table, np.zeros(4, np.float32), 2, "nope = 1")


def test_a_large_table_is_indexed_once_and_still_finds_the_nearest(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "FLAT_ROWS", 2000)
    random = np.random.default_rng(0)
    centres = random.normal(size=(40, 16))
    vectors = unit(centres[random.integers(0, 40, 3000)] + 0.3 * random.normal(size=(3000, 16)))
    small = table_of(tmp_path / "small", vectors[:100])
    assert vector_index.maintain(small) == "flat"
    large = table_of(tmp_path / "large", vectors)
    assert vector_index.maintain(large) == "ivf"
    assert vector_index.maintain(large) == "ivf"
    found = hits = 0
    for query in vectors[:50]:
        exact = {f"c{n}" for n in np.argsort(-(vectors @ query))[:10]}
        near = vector_index.search(large.dataset(), query, 10).column("chunk_id").to_pylist()
        hits += len(exact & set(near))
        found += 10
    assert hits / found >= 0.95


@pytest.mark.long
@pytest.mark.parametrize(
    ("cycles", "fragments"), [(12, 8), pytest.param(48, 16, marks=pytest.mark.bench)]
)
def test_a_table_with_an_index_does_not_wear_out(tmp_path, monkeypatch, cycles, fragments):
    monkeypatch.setattr(lance, "MAX_FRAGMENTS", fragments)
    monkeypatch.setattr(bench_nights, "MAX_FRAGMENTS", fragments)
    monkeypatch.setattr(vector_index, "FLAT_ROWS", 1500)
    monkeypatch.setattr(tables, "SORTED_ROWS", 1500)
    monkeypatch.setattr(vector_index, "_NPROBES", 16)
    measured = list(nights(tmp_path, cycles, 2000, dimension=16))
    assert worn(measured) == []
    assert {n.parts for n in measured} == {1}
    assert {n.partitions for n in measured} == {44}, "the square root of 2,000"
    assert max(n.unindexed for n in measured) < lance.MAX_UNINDEXED + 1e-6


def test_partitions_are_trained_anew_when_the_table_outgrows_them(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "FLAT_ROWS", 500)
    chance = np.random.default_rng(3)
    table = table_of(tmp_path, np.eye(16, dtype=np.float32))
    add(table, unit(chance.normal(size=(600 - 16, 16))))
    vector_index.maintain(table)
    assert vector_index.index_probes(table.dataset()) == 24, "all of them, as they are few"
    add(table, unit(chance.normal(size=(2400, 16))))
    vector_index.maintain(table)
    assert vector_index.index_probes(table.dataset()) == 54, "the square root of 3,000"


def test_partitions_are_trained_anew_when_one_of_them_fills(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_index, "FLAT_ROWS", 1000)
    chance = np.random.default_rng(3)
    table = table_of(tmp_path, unit(chance.normal(size=(2000, 16))))
    vector_index.maintain(table)
    # Then a new subject comes, whose vectors lie close together.
    add(table, unit(np.eye(1, 16) + 0.05 * chance.normal(size=(1500, 16))))
    vector_index.maintain(table)
    sizes = vector_index._partition_sizes(table.dataset())
    assert sum(sizes) == 3500
    assert max(sizes) < 700, "the new subject is not in one partition"


_GERMAN = "Die Hunde schlafen nachts im Garten und bewachen das Haus."
_ENGLISH = "The dogs sleep in the garden at night and guard the house."


def test_a_query_is_as_near_to_the_mean_of_one_language_as_to_that_of_another():
    # German texts lie around (1, 0, 0), English ones around (0, 1, 0). The third number is meaning.
    meanings = [0.2, -0.2, 0.4, -0.4, 0.0]
    vectors = np.array([[1, 0, m] for m in meanings] + [[0, 1, m] for m in meanings], np.float32)
    axes = language_axes(vectors, [_GERMAN] * 5 + [_ENGLISH] * 5)
    assert axes is not None
    assert axes.shape == (1, 3)
    query = without_axes(np.array([1.0, 0.0, 0.5], np.float32), axes)
    assert query == pytest.approx(np.array([0.5, 0.5, 0.5]))
    assert vectors @ query == pytest.approx(np.array([0.5 + 0.5 * m for m in meanings] * 2))
    assert without_axes(query, axes) == pytest.approx(query)


@pytest.mark.parametrize("texts", [[_GERMAN] * 4 + [_ENGLISH] * 6, [_GERMAN] * 10, []])
def test_a_language_of_fewer_than_five_chunks_has_no_axis(texts):
    assert language_axes(np.eye(10, dtype=np.float32)[: len(texts)], texts) is None
    query = np.array([3.0, 4.0], np.float32)
    assert without_axes(query, None) is query


def test_few_chunks_are_all_read_and_many_evenly():
    assert sampled(np.arange(3)).tolist() == [0, 1, 2]
    some = sampled(np.arange(0, 8000, 10))
    assert (len(some), some[0], some[-1]) == (400, 0, 7990)
    assert {*np.diff(some).tolist()} == {20, 30}
