"""Hashes of a store's files, in a folder and on a bucket."""

import pyarrow as pa
import pytest

from rag_pipeline.errors import StoreError
from rag_pipeline.store.hashes import holds, page_holds, seal, seal_page, unsealed
from rag_pipeline.store.schemas import QUARANTINE_SCHEMA, rows_of


@pytest.fixture
def store(any_store):
    return any_store


def row(document_id):
    columns = {"document_id": [document_id], "content_hash": ["0"], "fingerprint": ["f"]}
    columns |= {"stage": ["documents"], "reason": ["torn"], "origin": [None]}
    return rows_of(columns, QUARANTINE_SCHEMA)


def test_a_table_is_hashed_file_by_file_once(store, monkeypatch):
    table = store.table("quarantine.documents", QUARANTINE_SCHEMA)
    table.ensure()
    table.replace(["a"], [row("a")])
    first = store.hash_table(table.name)
    assert {path.split("/")[2] for path in first} == {"data", "_versions", "_transactions"}
    assert store.changed_files(first) == []
    table.replace(["b"], [row("b")])
    read: list[str] = []
    hashes = store.files.hashes

    def counted(paths):
        read.extend(paths)
        return hashes(paths)

    monkeypatch.setattr(store.files, "hashes", counted)
    second = store.hash_table(table.name)
    assert first.items() <= second.items()
    assert set(read) == second.keys() - first.keys(), "only what is new is read"


def test_a_file_that_is_altered_or_gone_is_told(store):
    for name in ("a", "b", "c"):
        store.write_bytes(f"tables/t.lance/{name}", b"content of " + name.encode())
    paths = [f"tables/t.lance/{name}" for name in ("a", "b", "c", "none")]
    known = store.files.hashes(paths)
    assert known.keys() == set(paths[:3])
    store.write_bytes(paths[0], b"kontent of a")
    store.remove_file(paths[1])
    assert store.changed_files(known) == paths[:2]


def test_a_note_is_read_without_the_rows(store):
    rows = pa.table({"n": list(range(1000))})
    store.write_parquet("evaluation/x.parquet", rows, {"digest": "d"})
    assert store.read_note("evaluation/x.parquet") == {"digest": "d"}
    assert store.read_note("evaluation/none.parquet") == {}
    store.check_file("evaluation/x.parquet")
    store.write_bytes("evaluation/x.parquet", b"PAR1 torn")
    assert store.read_note("evaluation/x.parquet") == {}
    with pytest.raises(StoreError, match=r"evaluation/x.parquet: not Parquet"):
        store.check_file("evaluation/x.parquet")


def test_what_was_altered_in_a_json_file_is_told(store):
    store.write_json("evaluation/leaderboard.json", {"n": 0.5, "names": ("a", "ü")})
    store.check_file("evaluation/leaderboard.json")
    assert store.read_json("evaluation/leaderboard.json") == {"n": 0.5, "names": ["a", "ü"]}
    content = store.read_bytes("evaluation/leaderboard.json")
    store.write_bytes("evaluation/leaderboard.json", content.replace(b"0.5", b"0.7"))
    with pytest.raises(StoreError, match=r"leaderboard.json: its hash differs"):
        store.check_file("evaluation/leaderboard.json")


def test_what_was_never_sealed_holds():
    assert holds({"a": 1}) and holds([1]) and holds("text")
    assert unsealed(seal({"a": 1})) == {"a": 1}
    page = seal_page("<html>n = 0.5</html>")
    assert page_holds(page)
    assert page_holds(b"<html></html>\n")
    assert not page_holds(page.replace(b"0.5", b"0.7"))
    assert not page_holds(page[:9])
