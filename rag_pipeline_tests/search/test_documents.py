"""The documents of a release are read once, and always from the release's version."""

from rag_pipeline.datamodels import Document
from rag_pipeline.search import documents as module
from rag_pipeline.search.mapped import MappedFolder
from rag_pipeline.store import Store, Table
from rag_pipeline_tests.testing.search_index import documents_of


def counted(monkeypatch):
    """The ids of each read of a table, and the number of openings."""
    reads, openings = [], []
    read_rows, opened = Table.read_rows, Table.opened

    def rows(self, columns, document_ids, *given, **named):
        reads.append(list(document_ids))
        return read_rows(self, columns, document_ids, *given, **named)

    def kept_open(self, version):
        openings.append(version)
        return opened(self, version)

    monkeypatch.setattr(Table, "read_rows", rows)
    monkeypatch.setattr(Table, "opened", kept_open)
    return reads, openings


def test_each_document_is_read_once_from_one_open_table(tmp_path, monkeypatch):
    _, pinned = documents_of(tmp_path, {"a.txt": "one", "b.txt": "two", "c.txt": "three"})
    reads, openings = counted(monkeypatch)
    assert pinned.read(["a.txt", "missing.txt"]) == {
        "a.txt": Document("a.txt", "h", "one", metadata={"n": 1})
    }
    assert pinned.texts(["b.txt", "a.txt"]) == {"a.txt": "one", "b.txt": "two"}
    assert pinned.texts(["a.txt", "b.txt"]) == {"a.txt": "one", "b.txt": "two"}
    assert reads == [["a.txt", "missing.txt"], ["b.txt"]]
    assert len(openings) == 1


def test_a_later_version_of_the_table_is_not_read(tmp_path):
    table, pinned = documents_of(tmp_path, {"a.txt": "one", "b.txt": "two"})
    assert pinned.texts(["a.txt"]) == {"a.txt": "one"}
    table.drop(["a.txt", "b.txt"])
    assert pinned.texts(["a.txt", "b.txt"]) == {"a.txt": "one", "b.txt": "two"}


def test_the_kept_texts_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 3_000)
    texts = {f"{n}.txt": "x" * 600 for n in range(9)}  # 800 with the fixed part: three fit
    _, pinned = documents_of(tmp_path, {**texts, "long.txt": "y" * 900})
    reads, _ = counted(monkeypatch)
    assert pinned.texts([*texts, "long.txt"]) == {**texts, "long.txt": "y" * 900}
    pinned.texts(["6.txt", "7.txt", "8.txt"])
    pinned.texts(["5.txt", "long.txt"])
    assert reads[1:] == [["5.txt", "long.txt"]]


def test_processes_of_a_server_map_the_documents(tmp_path, monkeypatch):
    texts = {"z.txt": "last", "a.txt": "first", "é.txt": "accent"}
    table, pinned = documents_of(tmp_path, texts)
    mapped = MappedFolder(tmp_path / "mapped")
    first = pinned.for_server(1 << 20, mapped)
    table.drop([*texts])
    second = pinned.for_server(1 << 20, mapped)
    reads, _ = counted(monkeypatch)
    for one in (first, second):
        assert one.texts(["é.txt", "b.txt", "z.txt", "zz.txt"]) == {
            "é.txt": "accent",
            "z.txt": "last",
        }
        assert one.read(["a.txt"]) == pinned.read(["a.txt"])
    assert [ids for ids in reads if "b.txt" in ids] == []  # only `pinned` read the table


def test_documents_above_the_limit_are_not_mapped(tmp_path, monkeypatch):
    _, pinned = documents_of(tmp_path, {"a.txt": "x" * 5000, "b.txt": "two"})
    one = pinned.for_server(5000, MappedFolder(tmp_path / "mapped"))
    reads, _ = counted(monkeypatch)
    assert one.texts(["b.txt"]) == {"b.txt": "two"}
    assert reads == [["b.txt"]]
    assert not [*(tmp_path / "mapped").glob("*.arrow")]


def test_a_table_that_is_made_again_is_mapped_again(tmp_path):
    mapped = MappedFolder(tmp_path / "mapped")
    table, old = documents_of(tmp_path, {"a.txt": "old"})
    assert old.for_server(1 << 20, mapped).texts(["a.txt"]) == {"a.txt": "old"}
    Store(str(tmp_path), "tiny").drop_table("documents")
    again, new = documents_of(tmp_path, {"a.txt": "new", "b.txt": "more"})
    assert again.version == table.version
    assert new.for_server(1 << 20, mapped).texts(["a.txt", "b.txt"]) == {
        "a.txt": "new",
        "b.txt": "more",
    }
