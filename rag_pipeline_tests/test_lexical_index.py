import json
import random
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_pipeline.config import Lexical
from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.lexical_index import (
    Earlier,
    LexicalIndex,
    LexicalStats,
    build_lexical_index,
    check_engine,
    is_extensible,
    open_lexical_index,
)
from rag_pipeline.tokenization import Tokenizer

ENGINES = ["bm25s", "rank_bm25", "lance"]
PLAIN = Lexical(language="none")

Row = tuple[str, str, str | None]
"""Chunk id, text, context."""


def batches(rows: Sequence[Row], size: int = 100) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        ids, texts, contexts = zip(*rows[start : start + size], strict=True)
        columns = {
            "chunk_id": ids,
            "document_id": [chunk_id.partition("#")[0] for chunk_id in ids],
            "text": texts,
        }
        columns = {name: pa.array(values, pa.string()) for name, values in columns.items()}
        titles = pa.array([None] * len(ids), pa.string())
        starts = pa.array(range(start, start + len(ids)), pa.int64())
        columns |= {"context": pa.array(contexts, pa.string()), "title": titles}
        yield pa.record_batch({**columns, "start": starts})


def head_rows(rows: Sequence[tuple[str, int, str, str]]) -> pa.RecordBatch:
    """Return document ids, starts, texts and titles as a batch."""
    names = ("document_id", "start", "text", "title")
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    types = (pa.string(), pa.int64(), pa.string(), pa.string())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.record_batch(arrays, names=list(names))


def built(engine: str, rows: Sequence[Row], folder: Path, options: Lexical = PLAIN) -> LexicalIndex:
    build_lexical_index(engine, batches(rows), options, folder)
    return open_lexical_index(folder)


def rows_of(texts: Sequence[str]) -> list[Row]:
    return [(f"d{number // 7}#{number:05}", text, None) for number, text in enumerate(texts)]


def zipf_texts(count: int, seed: int, vocabulary: int = 300) -> list[str]:
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(vocabulary)]
    weights = [1 / (rank + 1) for rank in range(vocabulary)]
    return [" ".join(rng.choices(words, weights, k=rng.randint(1, 40))) for _ in range(count)]


def zipf_queries(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join(f"w{rng.randrange(300)}" for _ in range(rng.randint(1, 6))) for _ in range(count)
    ]


def reference(texts: Sequence[str], query: str, options: Lexical) -> dict[int, float]:
    """Score with rank_bm25 and Lucene's idf, its constant factor k1 + 1 divided out."""
    tokenizer = Tokenizer(options)
    chunks = tokenizer.tokenize_all(texts)
    model = BM25Okapi(chunks, k1=options.k1, b=options.b)
    for term, n in Counter(term for chunk in chunks for term in set(chunk)).items():
        model.idf[term] = np.log(1 + (len(chunks) - n + 0.5) / (n + 0.5))
    scores = model.get_scores(tokenizer.tokenize(query)) / (options.k1 + 1)
    return {row: score for row, score in enumerate(scores.tolist()) if score > 0}


@pytest.fixture(scope="module", params=ENGINES)
def zipf_index(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LexicalIndex:
    folder = tmp_path_factory.mktemp("zipf") / request.param
    return built(request.param, rows_of(zipf_texts(2500, seed=1)), folder)


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_worked_by_hand(engine: str, tmp_path: Path) -> None:
    # 2, 4 and 3 terms: avgdl = 3, so with k1 = 1.2 and b = 0.75 the denominators add 0.9, 1.5, 1.2
    # to tf. idf of cat and dog (2 of 3): ln(1 + 1.5 / 2.5); of bird (1 of 3): ln(1 + 2.5 / 1.5)
    rows = [("a#1", "cat sat", None), ("a#2", "cat cat dog", "bird"), ("b#1", "dog ran far", None)]
    index = built(engine, rows, tmp_path / "index")
    cat = dog = 0.4700036
    bird = 0.9808293
    assert index.search("cat", 5) == [
        ("a#2", pytest.approx(cat * 2 / 3.5)),
        ("a#1", pytest.approx(cat * 1 / 1.9)),
    ]
    assert index.search("bird dog", 5) == [
        ("a#2", pytest.approx((bird + dog) / 2.5)),
        ("b#1", pytest.approx(dog / 2.2)),
    ]
    assert index.search("dog dog", 1) == [("b#1", pytest.approx(2 * dog / 2.2))]


@pytest.mark.parametrize("engine", ["bm25s", "rank_bm25"])
def test_a_term_of_the_text_counts_as_several_of_the_context(engine: str, tmp_path: Path) -> None:
    # in terms counted twice in the text, tf is 2 or 1, every dl the average of 3, k1 = 2 * 1.2;
    # idf of both (2 of 2): ln(1 + 0.5 / 2.5)
    rows = [("a#1", "cat", "dog"), ("b#1", "dog", "cat")]
    index = built(engine, rows, tmp_path / "index", Lexical(language="none", text_weight=2))
    assert index.search("cat", 5) == [
        ("a#1", pytest.approx(0.1823216 * 2 / 4.4)),
        ("b#1", pytest.approx(0.1823216 * 1 / 3.4)),
    ]


def test_without_contexts_the_weight_of_the_text_changes_nothing(tmp_path: Path) -> None:
    rows = rows_of(zipf_texts(200, seed=4))
    once = built("bm25s", rows, tmp_path / "once")
    thrice = built("bm25s", rows, tmp_path / "thrice", Lexical(language="none", text_weight=3))
    for query in zipf_queries(5, seed=5):
        expected = dict(once.search(query, 200))
        assert dict(thrice.search(query, 200)) == pytest.approx(expected, rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join), max_size=9),
    query=st.lists(st.sampled_from("abcdefgz"), max_size=4).map(" ".join),
    k1=st.sampled_from([0.4, 0.9, 1.2, 2.0]),
    b=st.sampled_from([0.0, 0.4, 0.75, 1.0]),
)
def test_bm25s_ranks_as_rank_bm25(texts: list[str], query: str, k1: float, b: float) -> None:
    options = Lexical(language="none", k1=k1, b=b)
    rows = rows_of(texts)
    with TemporaryDirectory() as folder:
        found = built("bm25s", rows, Path(folder) / "bm25s", options).search(query, 20)
        expected = built("rank_bm25", rows, Path(folder) / "rank_bm25", options).search(query, 20)
    assert dict(found) == {i: pytest.approx(score, rel=1e-5) for i, score in expected}
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)


def test_scores_are_rank_bm25s_up_to_its_constant(zipf_index: LexicalIndex) -> None:
    texts = zipf_texts(2500, seed=1)
    for query in zipf_queries(8, seed=2):
        expected = reference(texts, query, PLAIN)
        found = zipf_index.search(query, 20)
        ids = zipf_index.chunk_ids.to_pylist()
        best = sorted(expected.values(), reverse=True)[:20]
        assert [score for _, score in found] == pytest.approx(best, rel=1e-5)
        for chunk_id, score in found:
            assert score == pytest.approx(expected[ids.index(chunk_id)], rel=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.6, 1.0])
def test_allowed_is_the_unrestricted_ranking_filtered(
    zipf_index: LexicalIndex, share: float
) -> None:
    rng = random.Random(3)
    allowed = {i for i in zipf_index.chunk_ids.to_pylist() if rng.random() < share}
    mask = zipf_index.mask(allowed)
    assert mask.sum() == len(allowed)
    for query in ["w0", *zipf_queries(6, seed=4)]:
        everything = zipf_index.search(query, len(zipf_index))
        expected = [hit for hit in everything if hit[0] in allowed][:10]
        for restriction in (mask, allowed):
            found = zipf_index.search(query, 10, restriction)
            assert [i for i, _ in found] == [i for i, _ in expected]
            assert [s for _, s in found] == pytest.approx([s for _, s in expected], rel=1e-6)


def test_mask_takes_strings_and_arrow_columns(zipf_index: LexicalIndex) -> None:
    wanted = ["d0#00003", "d1#00008", "elsewhere#1"]
    for ids in (wanted, set(wanted), pa.array(wanted), pa.chunked_array([wanted])):
        assert np.flatnonzero(zipf_index.mask(ids)).tolist() == [3, 8]
    with pytest.raises(ValueError, match=r"boolean mask of shape \(2500,\)"):
        zipf_index.search("w1", 5, np.ones(3, dtype=bool))


def test_the_shorter_result_is_the_head_of_the_longer(zipf_index: LexicalIndex) -> None:
    for query in zipf_queries(5, seed=5):
        everything = zipf_index.search(query, len(zipf_index) + 1)
        for k in (0, 1, 7, 300):
            assert zipf_index.search(query, k) == everything[:k]


def test_threads_search_one_index(zipf_index: LexicalIndex) -> None:
    queries = zipf_queries(30, seed=6) * 4
    expected = [zipf_index.search(query, 10) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: zipf_index.search(query, 10), queries)) == expected


def test_a_query_without_known_terms_finds_nothing(zipf_index: LexicalIndex) -> None:
    for query in ("", "  ", "?!", "unheard of", "'; DROP --", '"w', "\ud800"):
        assert zipf_index.search(query, 5) == []
    assert zipf_index.search("w299 unheard", 5) == zipf_index.search("w299", 5) != []


def test_rows_asked_for_besides_are_scored_as_in_the_whole_ranking(
    zipf_index: LexicalIndex,
) -> None:
    also = np.arange(3, 2500, 2)
    for query in zipf_queries(5, seed=11):
        everything = dict(zipf_index.search(query, 2500))
        found = zipf_index.search_rows(query, 4, None, also)
        ids = zipf_index.chunk_ids.take(pa.array(found.rows)).to_pylist()
        assert dict(zip(ids, found.scores, strict=True)) == pytest.approx(
            {i: everything[i] for i in ids}, rel=1e-6
        )
        wanted = {zipf_index.chunk_ids[row].as_py() for row in also.tolist()} & set(everything)
        assert set(ids) >= wanted | {i for i, _ in zipf_index.search(query, 4)}


@pytest.mark.parametrize("engine", ENGINES)
def test_ties_are_broken_by_chunk_id(engine: str, tmp_path: Path) -> None:
    ids = [f"d#{number:03}" for number in range(90)]
    random.Random(7).shuffle(ids)
    index = built(engine, [(i, "same words", None) for i in ids], tmp_path / "index")
    assert [i for i, _ in index.search("words", 5)] == sorted(ids)[:5]
    assert [i for i, _ in index.search("words", 3, ids[40:])] == sorted(ids[40:])[:3]


@pytest.mark.parametrize("engine", ENGINES)
def test_results_depend_on_the_chunks_not_on_their_order(engine: str, tmp_path: Path) -> None:
    rows = rows_of(zipf_texts(300, seed=8, vocabulary=40))
    shuffled = random.Random(9).sample(rows, len(rows))
    one, other = built(engine, rows, tmp_path / "1"), built(engine, shuffled, tmp_path / "2")
    for query in ("w1", "w3 w5", "w39 w12 w0"):
        assert [i for i, _ in one.search(query, 300)] == [i for i, _ in other.search(query, 300)]


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
    stats = build_lexical_index(engine, batches(rows, size=1), Lexical(), tmp_path / "building")
    assert stats == LexicalStats(rows=2, terms=5)  # parti agre leas ada rent
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
    stats = build_lexical_index(engine, batches(rows_of(texts)), PLAIN, tmp_path / "index")
    index = open_lexical_index(tmp_path / "index")
    assert stats == LexicalStats(rows=len(texts), terms=0)
    assert len(index) == len(index.mask(["d0#00000"])) == len(texts)
    assert index.search("anything", 5) == index.search("anything", 5, ["d0#00000"]) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_every_missing_torn_or_altered_file_is_noticed(engine: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    build_lexical_index(engine, batches(rows_of(["some words", "more"])), PLAIN, whole)
    files = [p.relative_to(whole) for p in sorted(whole.rglob("*")) if p.is_file()]
    assert len(files) >= 3
    for file in files:
        content = (whole / file).read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        for damaged in (None, content[:middle], flipped):
            folder = tmp_path / "damaged"
            shutil.copytree(whole, folder)
            if damaged is None:
                (folder / file).unlink()
            else:
                (folder / file).write_bytes(damaged)
            with pytest.raises(StoreError, match=f"{folder}.*build it again"):
                open_lexical_index(folder)
            shutil.rmtree(folder)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", "null", '{"format": 0}', '{"format": 1}'])
def test_a_manifest_of_something_else(manifest: str, tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text(manifest)
    with pytest.raises(StoreError, match=str(tmp_path)):
        open_lexical_index(tmp_path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=str(tmp_path / "nowhere")):
        open_lexical_index(tmp_path / "nowhere")


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
    manifest = json.loads((folder / "index.json").read_text())
    manifest["files"][file.name] = zlib.crc32(file.read_bytes())  # as whoever planted it would
    (folder / "index.json").write_text(json.dumps(manifest))
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


@settings(max_examples=15, deadline=None)
@given(documents_of, documents_of, st.integers(1, 3))
def test_carrying_over_what_did_not_change_is_building_from_all(
    before: Documents, after: Documents, text_weight: int
) -> None:
    options = Lexical(language="none", text_weight=text_weight)
    kept = [name for name in before if before[name] == after.get(name)]
    with TemporaryDirectory() as folder:
        built("bm25s", chunks_of(before), Path(folder) / "before", options)
        earlier = Earlier(Path(folder) / "before", kept)
        assert is_extensible(earlier.folder)
        fresh = {name: texts for name, texts in after.items() if name not in kept}
        stats = build_lexical_index(
            "bm25s", batches(chunks_of(fresh)), options, Path(folder) / "grown", earlier
        )
        grown = open_lexical_index(Path(folder) / "grown")
        whole = built("bm25s", chunks_of(after), Path(folder) / "whole", options)
        assert stats.rows == len(grown) == len(whole)
        for query in ("a", "b c", "ada ab a", "eve"):
            assert grown.search(query, 20) == whole.search(query, 20)
            assert grown.documents is not None and whole.documents is not None
            ids = grown.documents.document_ids.to_pylist()
            assert ids == whole.documents.document_ids.to_pylist()
            scores = grown.documents.scores(query).tolist()
            assert scores == whole.documents.scores(query).tolist()


def test_nothing_is_built_on_a_torn_index_or_another_engines(tmp_path: Path) -> None:
    rows = rows_of(["some words", "more words"])
    for engine in ENGINES:
        built(engine, rows, tmp_path / engine)
    assert [is_extensible(tmp_path / engine) for engine in ENGINES] == [True, False, False]
    assert not is_extensible(tmp_path / "missing")
    (tmp_path / "bm25s" / "counts.npy").write_bytes(b"torn")
    assert not is_extensible(tmp_path / "bm25s")
