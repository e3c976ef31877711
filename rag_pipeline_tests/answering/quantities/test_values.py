from decimal import Decimal

import pytest

from rag_pipeline.answering.quantities.numbers import read_number
from rag_pipeline.answering.quantities.values import quantities


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("seven", 7),
        ("forty-five", 45),
        ("one hundred and twenty", 120),
        ("two thousand three hundred", 2300),
        ("three million", 3_000_000),
        ("1,240.50", Decimal("1240.50")),
        ("hundred", 100),
    ],
)
def test_numbers_in_words(words, number):
    assert read_number(words) == number


def test_a_word_that_is_no_number_has_none():
    assert read_number("many") is None


def test_quantities_do_not_overlap_and_keep_their_places():
    text = "USD 60 a month, at most 5% of ten (10) days"
    assert [(q.kind, text[q.start : q.end]) for q in quantities(text)] == [
        ("MONEY", "USD 60"),
        ("PERCENTAGE", "5%"),
        ("TIME", "ten (10) days"),
    ]
