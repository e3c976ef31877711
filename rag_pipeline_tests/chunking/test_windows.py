from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.chunking.sizes import Limit
from rag_pipeline.chunking.windows import window_spans

TEXT = "One is here. Two is too. Three. Four came late."


@pytest.mark.parametrize(
    ("text", "limit", "overlap", "windows"),
    [
        # sentences are put together while they fit
        (TEXT, 24, 0, ["One is here. Two is too.", "Three. Four came late."]),
        (TEXT, 23, 0, ["One is here.", "Two is too. Three.", "Four came late."]),
        # windows share whole sentences up to the overlap
        (TEXT, 31, 20, ["One is here. Two is too. Three.", "Three. Four came late."]),
        (TEXT, 34, 20, ["One is here. Two is too. Three.", "Two is too. Three. Four came late."]),
        # a sentence that leaves the next one no room is not shared
        ("Aaaa bb. Cccc dd. Eeee ffff gggg.", 17, 8, ["Aaaa bb. Cccc dd.", "Eeee ffff gggg."]),
        # a sentence over the maximum is cut at words
        ("Alpha beta gamma delta. Omega.", 12, 0, ["Alpha beta", "gamma delta.", "Omega."]),
    ],
)
def test_windows_of_sentences(text: str, limit: int, overlap: int, windows: list[str]) -> None:
    assert [text[a:b] for a, b in window_spans(text, Limit(limit), overlap)] == windows


@pytest.mark.parametrize("overlap", [0, 20, 59])
@settings(max_examples=100)
@given(
    text=st.lists(
        st.sampled_from(
            ["Short one. ", "A sentence that is a good deal longer. ", "\n\n", "x" * 70]
        ),
        max_size=20,
    ).map("".join)
)
def test_windows_advance_on_both_sides_and_keep_their_limits(text: str, overlap: int) -> None:
    spans = list(window_spans(text, Limit(60), overlap))
    starts = {start for start, _ in sentence_spans(text)}
    assert all(end - start <= 60 for start, end in spans)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(spans))
    assert all(a[1] - b[0] <= overlap for a, b in pairwise(spans))
    if "x" not in text:
        assert {start for start, _ in spans} <= starts
