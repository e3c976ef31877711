import pytest

from rag_pipeline.config import AdaptiveSelection
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.search.retrievers.dense import DenseRetriever
from rag_pipeline.search.selection import query_complexity, select, varied

CLAUSE = (
    "The receiving party keeps the confidential information secret for a period of five years "
    "after the end of this agreement and returns all copies of it on the first written request"
)
"""31 words, 29 shingles."""


def chunks(*told):
    return [ScoredChunk(f"{d}#{n}", d, n, n + 1, text, 1.0) for n, (d, text) in enumerate(told)]


TOLD = chunks(
    ("a", f"{CLAUSE}."),
    ("a", f"{CLAUSE.upper()}!"),
    ("b", f"{CLAUSE}, free."),
    ("a", CLAUSE.replace("five", "two")),
    ("a", f"{CLAUSE} 9"),
    ("a", "Notices are given in writing."),
    ("b", "Notices are given in writing."),
    ("b", ""),
)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        # another number in words: of 32 shingles 26 are shared; a word more: 29 of 30
        ({"near_duplicates": "document"}, [0, 2, 3, 4, 5, 6, 7]),
        ({"near_duplicates": "corpus"}, [0, 3, 4, 5, 7]),
        ({"most_per_document": 2}, [0, 1, 2, 6]),
        ({"near_duplicates": "document", "most_per_document": 2}, [0, 2, 3, 6]),
    ],
)
def test_what_repeats_a_better_chunk_or_passes_the_quota_goes(settings, kept):
    assert varied(TOLD, DenseRetriever(method="dense", **settings)) == kept


# --- adaptive ---

SETTINGS = AdaptiveSelection()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", 0.0),
        ("notice period", 0.13),
        ("How long?", 0.09 + 0.2),
        ("How long? Why?", 0.14 + 0.4 + 0.3),
        ("is OpenAI or LanceDB used", 0.25 + 0.2),
        ("x" * 250, 1.0),
        ("what " * 30, 1.0),
    ],
)
def test_complexity_by_hand(query, expected):
    assert query_complexity(query) == pytest.approx(expected)


@pytest.mark.parametrize(("query", "count"), [("pay", 3), ("x" * 50, 5), ("x" * 70, 7)])
def test_more_contexts_for_a_more_complex_query(query, count):
    ranking = [(n, 1.0 - n / 100) for n in range(50)]
    assert select(query, ranking, SETTINGS) == ranking[:count]


def test_only_chunks_above_the_floor_of_the_scaled_scores():
    # scaled between 10 and 30: 1.0, 0.75, 0.5, 0
    ranking = [(4, 30.0), (2, 25.0), (9, 20.0), (1, 10.0)]
    assert select("pay", ranking, SETTINGS) == ranking[:2]
    assert select("pay", ranking, AdaptiveSelection(floor=0.4)) == ranking[:3]


def test_equal_scores_count_as_relevant_and_nothing_stays_nothing():
    assert select("pay", [(1, 0.2), (2, 0.2)], SETTINGS) == [(1, 0.2), (2, 0.2)]
    assert select("pay", [(1, -5.0)], SETTINGS) == [(1, -5.0)]
    assert select("pay", [], SETTINGS) == []


def test_counts_must_not_fall():
    with pytest.raises(ValueError, match="use numbers of at least 1 in ascending order"):
        AdaptiveSelection(contexts=(5, 3, 7))
