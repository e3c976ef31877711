import pytest

from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.search.retrievers.dense import DenseRetriever
from rag_pipeline.search.variety import varied

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
