"""Build, open, refuse and extend indexes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.config import Lexical
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.search.lexical_index import (
    EarlierIndex,
    build_lexical_index,
    check_engine,
    engines,
    is_extensible,
    open_lexical_index,
    postings,
)
from rag_pipeline.search.lexical_index.engines import read_vocabulary
from rag_pipeline_tests.testing.lexical_indexes import (
    ENGINES,
    PLAIN,
    Row,
    batches,
    built,
    rows_of,
    zipf_texts,
)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("term", ["plain", "5,", '5,"', "\\", '\\",\\"7,"'])
@pytest.mark.parametrize("slice_size", [1, 7, 1 << 16])
def test_a_vocabulary_is_read_in_slices_whatever_its_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separators, term: str, slice_size: int
) -> None:
    monkeypatch.setattr(engines, "_SLICE", slice_size)
    terms = {name: number for number, name in enumerate(["a", term, "b", f"{term}7", "c"])}
    file = tmp_path / "vocab.index.json"
    for vocabulary in (terms, {"a": 0}, {}):
        file.write_text(json.dumps(vocabulary, separators=separators) + "\n")
        assert list(read_vocabulary(file).items()) == list(vocabulary.items())


@pytest.mark.parametrize("engine", ["bm25s", "rank_bm25"])
def test_building_twice_writes_the_same_bytes(engine: str, tmp_path: Path) -> None:
    rows = rows_of(zipf_texts(50, seed=10))
    contents = []
    for name in ("1", "2"):
        build_lexical_index(engine, batches(rows), PLAIN, tmp_path / name)
        files = (p for p in (tmp_path / name).rglob("*") if p.is_file())
        contents.append({p.relative_to(tmp_path / name): p.read_bytes() for p in files})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_built_folder_can_be_moved_and_keeps_its_settings(engine: str, tmp_path: Path) -> None:
    rows = [("a.md#0-9", "The parties agreed", "Lease of Ada's"), ("b.md#0-5", "Rents", "")]
    assert build_lexical_index(engine, batches(rows, size=1), Lexical(), tmp_path / "building") == 2
    (tmp_path / "building").rename(tmp_path / "index")
    index = open_lexical_index(tmp_path / "index")
    assert len(index) == 2
    assert index.chunk_ids.to_pylist() == ["a.md#0-9", "b.md#0-5"]
    assert index.document_ids.to_pylist() == ["a.md", "b.md"]
    assert [i for i, _ in index.search("What is Ada leasing?", 5)] == ["a.md#0-9"]
    assert [i for i, _ in index.search("rent", 5)] == ["b.md#0-5"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("texts", [[], ["", " . "]])
def test_nothing_to_index(engine: str, texts: list[str], tmp_path: Path) -> None:
    rows = build_lexical_index(engine, batches(rows_of(texts)), PLAIN, tmp_path / "index")
    index = open_lexical_index(tmp_path / "index")
    assert rows == len(index) == len(texts)
    nothing = np.zeros(len(texts), np.bool_)
    assert index.search("anything", 5) == index.search("anything", 5, nothing) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_missing_file_is_noticed(engine: str, tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "damaged"
    build_lexical_index(engine, batches(rows_of(["some words", "more"])), PLAIN, whole)
    for file in ("index.json", "chunks.arrow", "documents/documents.arrow"):
        shutil.copytree(whole, folder)
        (folder / file).unlink()
        with pytest.raises(StoreError, match=f"{folder}.*build it again"):
            open_lexical_index(folder)
        shutil.rmtree(folder)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", "null", '{"format": 0}', '{"format": 1}'])
def test_a_manifest_of_something_else(manifest: str, tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text(manifest)
    with pytest.raises(StoreError, match=str(tmp_path)):
        open_lexical_index(tmp_path)


def test_a_folder_in_use_is_not_built_into(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(StoreError, match="not empty"):
        build_lexical_index("bm25s", batches([]), PLAIN, tmp_path)


def test_lance_refuses_other_constants_before_writing(tmp_path: Path) -> None:
    for options in (Lexical(k1=1.5), Lexical(b=0.4), Lexical(text_weight=2)):
        with pytest.raises(ConfigError, match=r"b = 0.75 and text_weight = 1, got k1 = 1\.\d"):
            build_lexical_index("lance", batches([]), options, tmp_path / "index")
    assert not (tmp_path / "index").exists()
    check_engine("lance", Lexical(k1=1.2, b=0.75))
    with pytest.raises(ConfigError, match="'solr' is not one of: bm25s, rank_bm25, lance"):
        check_engine("solr", Lexical())


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_of_the_batches_comes_through(engine: str, tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(rows_of(["some words"]))
        raise StoreError("the table is gone")

    with pytest.raises(StoreError, match="the table is gone"):
        build_lexical_index(engine, failing(), PLAIN, tmp_path / "index")
    with pytest.raises(StoreError, match="build it again"):
        open_lexical_index(tmp_path / "index")


class _Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self._mark,)


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_a_pickle_in_the_place_of_an_array_is_refused_and_not_run(
    part: str, tmp_path: Path
) -> None:
    folder, mark = tmp_path / "index", tmp_path / "executed"
    built("bm25s", rows_of(["notice period", "hotel price"]), folder)
    (file,) = [p for p in folder.iterdir() if p.name.startswith(f"{part}.")]
    np.save(file, np.array([_Trap(mark)], dtype=object), allow_pickle=True)
    with pytest.raises(StoreError, match="build it again"):
        open_lexical_index(folder)
    assert not mark.exists()


Documents = dict[str, list[str]]
documents_of = st.dictionaries(
    st.sampled_from(["ada", "bob", "cyd", "dee", "eve"]),
    st.lists(st.text("ab c", max_size=12), min_size=1, max_size=3),
    max_size=5,
)


def chunks_of(documents: Documents) -> list[Row]:
    return [
        (f"{name}#{number}", text, name if number else None)
        for name, texts in documents.items()
        for number, text in enumerate(texts)
    ]


@settings(max_examples=15)
@given(documents_of, documents_of, st.integers(1, 3), st.sampled_from([1, 2, 100]))
def test_carrying_over_what_did_not_change_is_building_from_all(
    before: Documents, after: Documents, text_weight: int, block: int
) -> None:
    options = Lexical(language="none", text_weight=text_weight)
    kept = [name for name in before if before[name] == after.get(name)]
    with TemporaryDirectory() as folder, mock.patch.object(postings, "_BLOCK", block):
        built("bm25s", chunks_of(before), Path(folder) / "before", options)
        earlier = EarlierIndex(Path(folder) / "before", kept)
        assert is_extensible(earlier.folder)
        fresh = {name: texts for name, texts in after.items() if name not in kept}
        rows = build_lexical_index(
            "bm25s", batches(chunks_of(fresh)), options, Path(folder) / "grown", earlier
        )
        grown = open_lexical_index(Path(folder) / "grown")
        whole = built("bm25s", chunks_of(after), Path(folder) / "whole", options)
        assert rows == len(grown) == len(whole)
        for query in ("a", "b c", "ada ab a", "eve"):
            assert grown.search(query, 20) == whole.search(query, 20)
            ids = grown.documents.document_ids.to_pylist()
            assert ids == whole.documents.document_ids.to_pylist()
            scores = grown.documents.scores(query).tolist()
            assert scores == whole.documents.scores(query).tolist()


def test_only_the_default_engine_extends_an_index(tmp_path: Path) -> None:
    rows = rows_of(["some words", "more words"])
    for engine in ENGINES:
        built(engine, rows, tmp_path / engine)
    assert [is_extensible(tmp_path / engine) for engine in ENGINES] == [True, False, False]
    with pytest.raises(StoreError, match="build it again"):
        is_extensible(tmp_path / "missing")
