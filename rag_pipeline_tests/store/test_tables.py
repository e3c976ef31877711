from datetime import timedelta

import pyarrow as pa
import pytest
from lance import fragment
from lance.dataset import Tags

from rag_pipeline.errors import StoreError
from rag_pipeline.store import DocumentState, Store, Table, quoted, tables
from rag_pipeline.store.lance import MAX_FRAGMENTS, id_filters
from rag_pipeline.store.schemas import CHUNKS_SCHEMA, rows_of
from rag_pipeline_tests.testing.forked import Forked


def chunk_rows(document_id, count, content_hash="h", fingerprint="f"):
    columns = {
        "document_id": [document_id] * count,
        "content_hash": [content_hash] * count,
        "fingerprint": [fingerprint] * count,
        "chunk_id": [f"{document_id}#{n}-{n + 1}" for n in range(count)],
        "start": list(range(count)),
        "end": list(range(1, count + 1)),
        "text": ["x"] * count,
    }
    return rows_of(columns, CHUNKS_SCHEMA)


@pytest.fixture
def table(store):
    table = store.table("chunks.a", CHUNKS_SCHEMA)
    table.ensure()
    return table


def test_replacing_leaves_no_row_of_before_and_other_documents_alone(table):
    table.replace(["a", "b"], [chunk_rows("a", 2), chunk_rows("b", 3, "h2", "f2")])
    assert table.state() == {"a": DocumentState("h", "f", 2), "b": DocumentState("h2", "f2", 3)}
    table.replace(["a"], [chunk_rows("a", 1, "new")])
    assert table.state() == {"a": DocumentState("new", "f", 1), "b": DocumentState("h2", "f2", 3)}


def test_the_rows_of_some_documents_are_found_by_an_index_also_those_added_since(
    table, monkeypatch
):
    monkeypatch.setattr(tables, "SORTED_ROWS", 4)
    table.replace(["a", "b"], [chunk_rows("a", 2), chunk_rows("b", 2)])
    (where,) = id_filters(["a", "it's"])
    assert "ScalarIndexQuery" not in table.open().search().where(where).explain_plan()
    table.compact()
    assert "ScalarIndexQuery" in table.open().search().where(where).explain_plan()
    table.replace(["it's"], [chunk_rows("it's", 3)])
    assert "ScalarIndexQuery" in table.open().search().where(where).explain_plan()
    found = pa.Table.from_batches(table.read(["document_id"], ["a", "it's"]))
    assert sorted(found["document_id"].to_pylist()) == ["a"] * 2 + ["it's"] * 3


def test_rows_of_two_origins_count_as_stale(table):
    table.replace([], [chunk_rows("a", 1, "h1")])
    table.replace([], [chunk_rows("a", 1, "h2")])
    assert table.state() == {"a": DocumentState("", "", 2)}


@pytest.mark.parametrize(
    "name", ["it's", 'quo"te', "semi;colon--", "ünï/çødé 漢字", "a b\tc", "%_"]
)
def test_any_document_id_can_be_dropped(table, name):
    table.replace([], [chunk_rows(name, 1), chunk_rows("other", 1)])
    table.drop([name])
    assert set(table.state()) == {"other"}


def test_quotes_are_doubled():
    assert quoted("it's") == "'it''s'"


def test_a_missing_table_is_empty_to_read_and_named_when_opened(store):
    table = store.table("chunks.none", CHUNKS_SCHEMA)
    assert (table.exists(), table.count(), table.state()) == (False, 0, {})
    assert list(table.read(["text"])) == []
    with pytest.raises(StoreError, match=r"no table chunks\.none"):
        table.dataset()


def test_a_new_dimension_starts_the_table_afresh(store):
    def schema(size):
        return pa.schema([*CHUNKS_SCHEMA, pa.field("vector", pa.list_(pa.float32(), size))])

    store.table("v", schema(4)).ensure()
    old = store.table("v", schema(4)).version
    store.table("v", schema(4)).ensure()
    assert store.table("v", schema(4)).version == old
    store.table("v", schema(8)).ensure()
    assert store.table("v", schema(8)).dataset().schema.field("vector").type.list_size == 8


REBUILD = """
import sys
from rag_pipeline_tests.store.test_tables import CHUNKS_SCHEMA, Store, chunk_rows
table = Store(sys.argv[1], "tiny").table("chunks.a", CHUNKS_SCHEMA)
for n in range(5):
    table.replace([sys.argv[2]], [chunk_rows(sys.argv[2], 10 + n, f"round {n}")])
"""


def versions(table):
    return [int(v["version"]) for v in table.open().list_versions()]


def test_processes_that_replace_documents_at_once_leave_one_set_of_rows_in_every_version(
    store, table
):
    names = ["a", "b", "a"]  # two of the same document, one of another
    processes = [Forked(REBUILD, store.url, name) for name in names]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert table.state() == {name: DocumentState("round 4", "f", 14) for name in names}
    seen = set()
    for version in versions(table):
        state = table.state(version)
        assert seen <= set(state), "a document is gone between two versions"
        seen = set(state)
        for held in state.values():
            assert held.rows == 10 + int(held.content_hash.removeprefix("round "))


def test_a_replacement_is_one_version(table):
    table.replace(["a", "b"], [chunk_rows("a", 3), chunk_rows("b", 1)])
    before = table.version
    table.replace(["a", "b", "none"], [chunk_rows("a", 2, "new"), chunk_rows("c", 1)])
    assert table.version == before + 1
    assert table.state() == {"a": DocumentState("new", "f", 2), "c": DocumentState("h", "f", 1)}


@pytest.mark.parametrize("there", [[], ["a"], ["b"]])
def test_a_replacement_sees_the_rows_that_another_one_adds_meanwhile(table, monkeypatch, there):
    """Holds for the first rows of a table, and for the first and later rows of a document."""
    for name in there:
        table.replace([], [chunk_rows(name, 5)])
    write = fragment.write_fragments

    def after_another(rows, lance):
        monkeypatch.undo()
        table.replace(["a"], [chunk_rows("a", 4, "first")])
        return write(rows, lance)

    monkeypatch.setattr(fragment, "write_fragments", after_another)
    table.replace(["a"], [chunk_rows("a", 3, "second")])
    assert table.state()["a"] == DocumentState("second", "f", 3)


def test_a_replacement_waits_for_upkeep_and_upkeep_yields_to_a_replacement(table, monkeypatch):
    for number in range(MAX_FRAGMENTS):
        table.replace([], [chunk_rows(f"d{number}", 1)])
    write = fragment.write_fragments

    def after_upkeep(rows, lance):
        monkeypatch.undo()
        table.replace([], [chunk_rows("one more", 1)])
        table.compact()
        return write(rows, lance)

    monkeypatch.setattr(fragment, "write_fragments", after_upkeep)
    table.replace(["d0"], [chunk_rows("d0", 3, "new")])
    assert table.state()["d0"] == DocumentState("new", "f", 3)
    assert len(table.state()) == MAX_FRAGMENTS + 1


def test_new_rows_are_found_before_and_after_they_are_in_the_index(table, monkeypatch):
    monkeypatch.setattr(tables, "SORTED_ROWS", 4)
    table.replace([], [chunk_rows(f"d{n}", 10) for n in range(10)])
    table.compact()
    table.replace(["d1", "new"], [chunk_rows("d1", 2, "x"), chunk_rows("new", 1)])
    for _ in range(2):
        found = pa.Table.from_batches(table.read(["document_id"], ["d0", "d1", "new"]))
        counts = found.group_by("document_id").aggregate([([], "count_all")]).to_pylist()
        assert {c["document_id"]: c["count_all"] for c in counts} == {"d0": 10, "d1": 2, "new": 1}
        table.compact()


def test_writers_that_never_pause_are_told(table, monkeypatch):
    monkeypatch.setattr(tables, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(Table, "_committed", lambda *arguments: False)
    with pytest.raises(StoreError, match="other processes wrote to this table"):
        table.replace(["a"], [chunk_rows("a", 1)])


def test_a_tag_that_another_process_creates_at_the_same_time_is_moved(table, monkeypatch):
    table.replace(["a"], [chunk_rows("a", 1)])
    table.replace(["a"], [chunk_rows("a", 2)])
    create, newest = Tags.create, table.version

    def second(tags, tag, version):
        create(tags, tag, version - 1)
        create(tags, tag, version)

    monkeypatch.setattr(Tags, "create", second)
    table.pin("release-000001", newest)
    assert table.pins() == {"release-000001": newest}
    with pytest.raises(StoreError):
        table.pin("release-000002", newest + 9)
    assert table.pins() == {"release-000001": newest}


def fragments(table):
    return table.open().stats()["fragment_stats"]["num_fragments"]


def test_clean_up_drops_old_versions_around_one_that_is_pinned(tmp_path):
    store = Store(str(tmp_path / "store"), "tiny", keep_versions=timedelta(0))
    table = store.table("chunks.a", CHUNKS_SCHEMA)
    table.ensure()
    table.replace(["a"], [chunk_rows("a", 2)])
    table.pin("release-000001", table.version)
    pinned = table.version
    for number in range(5):
        table.replace(["a"], [chunk_rows("a", 1, f"edit {number}")])
    would_free = table.drop_versions(dry_run=True)
    assert would_free > 0 and table.has_version(pinned + 1)
    table.compact()
    assert [v["version"] for v in table.open().list_versions()] == [pinned, table.version]
    assert table.state(pinned) == {"a": DocumentState("h", "f", 2)}
    assert table.state() == {"a": DocumentState("edit 4", "f", 1)}
    assert table.drop_versions(dry_run=True) == 0
    assert table.pins() == {"release-000001": pinned}
    table.unpin("release-000001")
    table.drop_versions()
    assert not table.has_version(pinned)


def test_a_young_version_outlives_clean_up(table):
    table.replace(["a"], [chunk_rows("a", 2)])
    old = table.version
    table.replace(["a"], [chunk_rows("a", 3)])
    table.compact()
    assert table.state(old)["a"].rows == 2


def test_fragments_are_merged_when_they_are_many_and_not_before(table):
    for number in range(MAX_FRAGMENTS):
        table.replace([], [chunk_rows(f"d{number}", 1)])
    table.compact()
    assert fragments(table) == MAX_FRAGMENTS
    table.replace([], [chunk_rows("one more", 1)])
    table.compact()
    assert fragments(table) == 1
    assert len(table.state()) == MAX_FRAGMENTS + 1


def test_a_state_is_read_once_per_version_and_never_of_another_table(store, table):
    reads = 0

    def counting(lance):
        nonlocal reads
        reads += 1
        return Table._read_state(table, lance)

    table._read_state = counting
    table.replace([], [chunk_rows("a", 1)])
    assert table.state() == table.state() == {"a": DocumentState("h", "f", 1)}
    assert reads == 1
    version = table.version
    # Dropped and made again, a table counts its versions from 1 again.
    store.drop_table(table.name)
    again = store.table(table.name, CHUNKS_SCHEMA)
    again.ensure()
    again.replace([], [chunk_rows("b", 1)])
    assert again.version == version
    assert again.state() == {"b": DocumentState("h", "f", 1)}
