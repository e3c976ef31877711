from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.chunking.sentences import sentence_spans
from rag_pipeline.chunking.windows import window_spans


def windows(text: str, limit: int, overlap: int = 0) -> list[str]:
    return [text[start:end] for start, end in window_spans(text, limit, overlap)]


def test_sentences_are_put_together_while_they_fit() -> None:
    text = "One is here. Two is too. Three. Four came late."
    assert windows(text, 24) == ["One is here. Two is too.", "Three. Four came late."]
    assert windows(text, 23) == ["One is here.", "Two is too. Three.", "Four came late."]


def test_windows_share_whole_sentences_up_to_the_overlap() -> None:
    text = "One is here. Two is too. Three. Four came late."
    assert windows(text, 31, 20) == ["One is here. Two is too. Three.", "Three. Four came late."]
    assert windows(text, 34, 20) == [
        "One is here. Two is too. Three.",
        "Two is too. Three. Four came late.",
    ]


def test_what_the_next_sentence_has_no_room_beside_is_not_shared() -> None:
    assert windows("Aaaa bb. Cccc dd. Eeee ffff gggg.", 17, 8) == [
        "Aaaa bb. Cccc dd.",
        "Eeee ffff gggg.",
    ]


def test_a_sentence_over_the_maximum_is_cut_at_words() -> None:
    assert windows("Alpha beta gamma delta. Omega.", 12) == ["Alpha beta", "gamma delta.", "Omega."]


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
    spans = window_spans(text, 60, overlap)
    starts = {start for start, _ in sentence_spans(text)}
    assert all(end - start <= 60 for start, end in spans)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(spans))
    assert all(a[1] - b[0] <= overlap for a, b in pairwise(spans))
    if "x" not in text:
        assert {start for start, _ in spans} <= starts
