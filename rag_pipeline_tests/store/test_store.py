import pyarrow as pa
import pytest

from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store import Store


def test_small_files_are_written_whole_and_listed(store):
    store.write_json("releases/a.json", {"n": 1})
    store.write_json("releases/a.json", {"n": 2})
    assert store.read_json("releases/a.json") == {"n": 2}
    assert store.read_json("releases/none.json") is None
    assert store.list("releases") == ["a.json"]
    assert store.list("nowhere") == []
    note = {"digest": "d"}
    store.write_parquet("evaluation/run.parquet", pa.table({"a": [1]}), note)
    assert store.read_note("evaluation/run.parquet") == note
    assert store.read_parquet("evaluation/run.parquet").column("a").to_pylist() == [1]


def test_a_torn_file_is_named(store):
    store.write_bytes("releases/a.json", b'{"n": ')
    with pytest.raises(StoreError, match=r"releases/a\.json: not JSON"):
        store.read_json("releases/a.json")
    store.write_bytes("run.parquet", b"PAR1 torn")
    with pytest.raises(StoreError, match=r"run\.parquet: not Parquet"):
        store.read_parquet("run.parquet")


def test_a_folder_is_published_whole_and_once(store):
    for content in ("first", "second"):
        folder = store.files.new_folder("lexical/a/x")
        (folder / "index").write_text(content)
        store.publish_folder(folder, "lexical/a/x")
        assert not folder.exists()
    assert (store.local_folder("lexical/a/x") / "index").read_text() == "first"
    with pytest.raises(StoreError, match="lexical/a/y: no such folder"):
        store.local_folder("lexical/a/y")


def test_a_store_that_cannot_be_is_a_config_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="store: "):
        Store(str(tmp_path / "file" / "store"), "tiny")
    with pytest.raises(ConfigError, match="store: nosuch://bucket"):
        Store("nosuch://bucket", "tiny")
