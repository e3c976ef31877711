from collections.abc import Sequence
from typing import Any

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


SIX = "Aaaaaaaaaaaaa. Bbbbbbbbbbbbb. Ccccccccccccc. Ddddddddddddd. Eeeeeeeeeeeee. Fffffffffffff."
NINE = "one two three four five six seven eight nine"


@pytest.mark.parametrize(
    ("text", "rows", "threshold", "minimum", "maximum", "starts"),
    [
        # A break is where the distance exceeds the mean and deviations.
        (FIVE, TURN_AFTER_TWO, 1.73, 0, 1000, [0, 18]),
        (FIVE, TURN_AFTER_TWO, 1.74, 0, 1000, [0]),
        # The mean is 0.5. "Cccc cc.", too short alone, is nearer to "Dddd dd.".
        (FIVE, turns(0.2, 0.9, 0.7, 0.2), 0.0, 0, 1000, [0, 18, 27]),
        (FIVE, turns(0.2, 0.9, 0.7, 0.2), 0.0, 9, 1000, [0, 18]),
        (FIVE, turns(0.2, 0.9, 0.7, 0.2)[::-1], 0.0, 9, 1000, [0, 27]),
        # Short pieces at the ends join inwards.
        (FIVE, turns(0.9, 0.1, 0.1, 0.1), 1.0, 0, 1000, [0, 9]),
        (FIVE, turns(0.9, 0.1, 0.1, 0.1), 1.0, 9, 1000, [0]),
        (FIVE, turns(0.1, 0.1, 0.1, 0.9), 1.0, 9, 1000, [0]),
        (FIVE, turns(0.9, 0.1, 0.9, 0.1), 0.0, 500, 1000, [0]),
        # Long pieces are cut at their largest distance, where both sides keep the minimum.
        (SIX, turns(0.2, 0.1, 0.1, 0.3, 0.1), 10.0, 0, 60, [0, 60]),
        (SIX, turns(0.2, 0.1, 0.1, 0.3, 0.1), 10.0, 0, 50, [0, 15, 60]),
        (SIX, turns(0.9, 0.1, 0.2, 0.1, 0.1), 10.0, 0, 80, [0, 15]),
        (SIX, turns(0.9, 0.1, 0.2, 0.1, 0.1), 10.0, 20, 80, [0, 45]),
        # Without a largest one they are halved, and a sentence is cut at words.
        (SIX, turns(*[0.1] * 5), 1.0, 0, 80, [0, 45]),
        (NINE, turns(0.1), 1.0, 0, 32, [0, NINE.index("seven")]),
    ],
)
def test_pieces_begin_where_the_subject_turns_within_their_limits(
    text: str, rows: Any, threshold: float, minimum: int, maximum: int, starts: list[int]
) -> None:
    ends = [*(start - 1 for start in starts[1:]), len(text)]
    expected = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert pieces(text, rows, threshold, minimum, maximum) == expected


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


def test_an_encoder_that_answers_with_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 2\) for 5 texts"):
        pieces(FIVE, [EAST, NORTH])
