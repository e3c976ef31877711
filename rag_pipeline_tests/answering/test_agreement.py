import math

import pytest

from rag_pipeline.answering.agreement import agreements
from rag_pipeline.answering.reading import multilingual
from rag_pipeline_tests.testing.chunking import scored


def cosine(question, text):
    embed = multilingual()
    return float(embed([text])[0] @ embed.asked(question))


def test_the_agreement_is_what_the_definition_says():
    # Of the words hall (1), cost (1) and 2024 (0.5), the sentences hold hall and costs, or 2024.
    question = "What does the hall cost in 2024?"
    texts = ["# Prices\n\nThe hall costs 270 euros.", "The roof was mended in 2024."]
    expected = [
        cosine(question, "Prices: The hall costs 270 euros.") + 0.08 * 2 / 2.5 + 0.04,
        # It states no amount of money.
        cosine(question, texts[1]) + 0.08 * 0.5 / 2.5,
    ]
    found = agreements(question, [scored("a", texts[0]), scored("b", texts[1])])
    assert found == pytest.approx([value + 0.05 * math.log(2.5) for value in expected])


def test_a_row_is_read_with_the_columns_of_its_table():
    question = "Who rents the attic?"
    table = "| room | tenant |\n| --- | --- |\n| hall | Ada Berg |\n| attic | Tom Ek |"
    rows = ["| room | tenant |: | hall | Ada Berg |", "| room | tenant |: | attic | Tom Ek |"]
    values = [cosine(question, row) + 0.04 + 0.05 * math.log(2) for row in rows]
    held = [0.0, 0.08 / 2]
    best = max(value + more for value, more in zip(values, held, strict=True))
    assert agreements(question, [scored("a", table)]) == pytest.approx([best])


def test_names_count_half_and_words_of_another_language_count_as_half_held():
    question, text = "When does Tambor open?", "Die Kantine öffnet um elf Uhr und schließt um zwei."
    across = cosine(question, text) + 0.01 + 0.08 * 0.5
    # It states a time, but the question does not ask for a kind of fact by one of the patterns.
    assert agreements(question, [scored("a", text)]) == pytest.approx(
        [across + 0.04 + 0.05 * math.log(1.5)]
    )


def test_sentences_behind_the_first_24_are_not_read():
    many = scored("a", " ".join(["Dogs are welcome."] * 24))
    found = agreements("Are dogs welcome?", [many, scored("b", "Dogs are welcome.")])
    assert found[0] > 0
    assert found[1] == 0
    assert agreements("Are dogs welcome?", []).tolist() == []
