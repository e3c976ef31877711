from collections.abc import Sequence

import numpy as np
import pytest

from rag_pipeline.chunking import chunk
from rag_pipeline.chunking.semantic import SemanticChunking
from rag_pipeline.datamodels import Chunk, Document, Vectors
from rag_pipeline_tests.testing.chunking import Embedding

# Four distances 0, 1, 0, 0: mean 1/4, variance 3/16; the 1 is sqrt(3) = 1.732 deviations above.
FIVE = "Aaaa aa. Bbbb bb. Cccc cc. Dddd dd. Eeee ee."
EAST, NORTH = (1.0, 0.0), (0.0, 1.0)
TURN_AFTER_TWO = [EAST, EAST, NORTH, NORTH, NORTH]


def pieces(
    text: str,
    rows: Sequence[Sequence[float]],
    threshold: float = 1.0,
    minimum: int = 0,
    maximum: int = 1000,
) -> list[str]:
    settings = SemanticChunking(
        method="semantic", threshold=threshold, min_characters=minimum, max_characters=maximum
    )
    models = Embedding(lambda texts: np.array(rows, np.float32))
    spans = settings.spans(Document("d", "", text), models)
    return [text[start:end] for start, end in spans]


def turns(*distances: float) -> list[tuple[float, float]]:
    """Return plane vectors whose neighbours have the given cosine distances."""
    angles = np.cumsum([0.0, *np.arccos(1.0 - np.array(distances))])
    return [(float(np.cos(angle)), float(np.sin(angle))) for angle in angles]


def test_a_break_is_where_the_distance_exceeds_mean_and_deviations() -> None:
    assert pieces(FIVE, TURN_AFTER_TWO, 1.73) == ["Aaaa aa. Bbbb bb.", "Cccc cc. Dddd dd. Eeee ee."]
    assert pieces(FIVE, TURN_AFTER_TWO, 1.74) == [FIVE]


def test_vectors_need_not_be_of_unit_length() -> None:
    rows = [(3.0, 0.0), (0.5, 0.0), (0.0, 7.0), (0.0, 1.0), (0.0, 2.0)]
    assert pieces(FIVE, rows, 1.73) == pieces(FIVE, TURN_AFTER_TWO, 1.73)


@pytest.mark.parametrize("distance", [0.0, 0.1, 0.3])
def test_equal_distances_are_no_reason_to_break(distance: float) -> None:
    assert pieces(FIVE, turns(*[distance] * 4), 0.0) == [FIVE]


def test_each_sentence_is_embedded_with_its_neighbours_in_one_call() -> None:
    calls: list[Sequence[str]] = []

    def embed(texts: Sequence[str]) -> Vectors:
        calls.append(texts)
        return np.ones((len(texts), 2), np.float32)

    text = "One is. Two is.\n\nThree is. Four is."
    for window in (1, 0):
        settings = SemanticChunking(method="semantic", window=window)
        settings.spans(Document("d", "", text), Embedding(embed))
    assert calls == [
        [
            "One is. Two is.",
            "One is. Two is.\n\nThree is.",
            "Two is.\n\nThree is. Four is.",
            "Three is. Four is.",
        ],
        ["One is.", "Two is.", "Three is.", "Four is."],
    ]


def test_one_sentence_is_not_embedded() -> None:
    assert chunk(Document("d", "", " Alone. "), SemanticChunking(method="semantic")) == [
        Chunk("d", 1, 7, "Alone.")
    ]


def test_short_pieces_join_the_neighbour_they_differ_less_from() -> None:
    # The mean is 0.5: the cuts are around "Cccc cc.", which is nearer to "Dddd dd.".
    rows = turns(0.2, 0.9, 0.7, 0.2)
    assert pieces(FIVE, rows, 0.0) == ["Aaaa aa. Bbbb bb.", "Cccc cc.", "Dddd dd. Eeee ee."]
    assert pieces(FIVE, rows, 0.0, minimum=9) == ["Aaaa aa. Bbbb bb.", "Cccc cc. Dddd dd. Eeee ee."]
    assert pieces(FIVE, rows[::-1], 0.0, minimum=9) == [
        "Aaaa aa. Bbbb bb. Cccc cc.",
        "Dddd dd. Eeee ee.",
    ]


def test_short_pieces_at_the_ends_join_inwards() -> None:
    assert pieces(FIVE, turns(0.9, 0.1, 0.1, 0.1), 1.0) == ["Aaaa aa.", FIVE[9:]]
    assert pieces(FIVE, turns(0.9, 0.1, 0.1, 0.1), 1.0, minimum=9) == [FIVE]
    assert pieces(FIVE, turns(0.1, 0.1, 0.1, 0.9), 1.0, minimum=9) == [FIVE]
    assert pieces(FIVE, turns(0.9, 0.1, 0.9, 0.1), 0.0, minimum=500) == [FIVE]


SIX = "Aaaaaaaaaaaaa. Bbbbbbbbbbbbb. Ccccccccccccc. Ddddddddddddd. Eeeeeeeeeeeee. Fffffffffffff."


def test_long_pieces_are_cut_at_their_largest_distance() -> None:
    rows = turns(0.2, 0.1, 0.1, 0.3, 0.1)
    assert pieces(SIX, rows, 10.0, maximum=60) == [SIX[:59], SIX[60:]]
    assert pieces(SIX, rows, 10.0, maximum=50) == [SIX[:14], SIX[15:59], SIX[60:]]


def test_long_pieces_are_cut_where_both_sides_keep_the_minimum() -> None:
    rows = turns(0.9, 0.1, 0.2, 0.1, 0.1)
    assert pieces(SIX, rows, 10.0, maximum=80) == [SIX[:14], SIX[15:]]
    assert pieces(SIX, rows, 10.0, minimum=20, maximum=80) == [SIX[:44], SIX[45:]]


def test_long_monotonous_pieces_are_halved() -> None:
    assert pieces(SIX, turns(*[0.1] * 5), maximum=80) == [SIX[:44], SIX[45:]]


def test_a_sentence_over_the_maximum_is_cut_at_words() -> None:
    text = "one two three four five six seven eight nine"
    rows = turns(0.1)
    assert pieces(text, rows, maximum=32) == ["one two three four five six", "seven eight nine"]


def test_an_encoder_that_answers_with_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 2\) for 5 texts"):
        pieces(FIVE, [EAST, NORTH])
