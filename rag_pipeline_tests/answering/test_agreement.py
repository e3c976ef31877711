import math
from dataclasses import replace

import pytest

from rag_pipeline.answering.agreement import agreements, states_asked
from rag_pipeline.answering.reading import multilingual
from rag_pipeline.answering.sentences import Sentence
from rag_pipeline_tests.testing.chunking import scored


def cosine(question, text):
    embed = multilingual()
    return float(embed([text])[0] @ embed.asked(question))


def test_the_agreement_is_what_the_definition_says():
    # Of the words hall (1.5), cost (1) and 2024 (0.5), they hold hall and costs, or 2024.
    question = "What does the hall cost in 2024?"
    texts = ["# Prices\n\nThe hall costs 270 euros.", "The roof was mended in 2024."]
    expected = [
        cosine(question, "Prices: The hall costs 270 euros.") + 0.08 * 2.5 / 3 + 0.04,
        # It states no amount of money.
        cosine(question, texts[1]) + 0.08 * 0.5 / 3,
    ]
    found = agreements(question, [scored("a", texts[0]), scored("b", texts[1])])
    assert found == pytest.approx([value + 0.06 * math.log(3) for value in expected])


def test_a_row_is_read_with_the_columns_of_its_table():
    question = "Who rents the attic?"  # Its two words count as three.
    table = "| room | tenant |\n| --- | --- |\n| hall | Ada Berg |\n| attic | Tom Ek |"
    rows = ["| room | tenant |: | hall | Ada Berg |", "| room | tenant |: | attic | Tom Ek |"]
    values = [cosine(question, row) + 0.04 + 0.06 * math.log(3) for row in rows]
    held = [0.0, 0.08 / 2.5]  # attic, but not rents, which counts 1.5
    best = max(value + more for value, more in zip(values, held, strict=True))
    assert agreements(question, [scored("a", table)]) == pytest.approx([best])


@pytest.mark.parametrize(
    ("name", "text", "context"),
    [
        ("a", "| room | price (EUR) |\n| --- | --- |\n| attic | 90 |", ""),
        ("a", "| attic | 90 |", "Prices | prices | columns: room | price (EUR)"),
        ("a.csv", "attic;90", "prices | prices | columns: room;price (EUR)"),
    ],
)
def test_the_column_of_a_number_tells_its_unit(name, text, context):
    chunk, start = replace(scored(name, text), context=context), text.rfind("\n") + 1
    row = Sentence(chunk, 1, start, text[start:], 0.0).with_units
    assert row.replace(" ", "") == "attic|90price(EUR)"
    assert states_asked("What does the attic cost?", row)
    assert not states_asked("What does the attic cost?", text[start:])


def test_words_of_another_language_count_as_half_held():
    question, text = "When does Tambor open?", "Die Kantine öffnet um elf Uhr und schließt um zwei."
    across = cosine(question, text) + 0.01 + 0.08 * 0.5
    assert agreements(question, [scored("a", text)]) == pytest.approx(
        [across + 0.04 + 0.06 * math.log(3)]
    )


@pytest.mark.parametrize(
    ("question", "sentence", "states"),
    [
        ("Who tuned the organ of Ada Berg?", "The organ was tuned by Tom Ek.", True),
        ("Who tuned the organ of Ada Berg?", "It is the organ of Ada Berg.", False),
        ("How many seats has hall 3?", "Hall 3 has 40 seats.", True),
        ("How many seats has hall 3?", "Hall 3 has new seats.", False),
        ("Wie viele Plätze hat der Saal?", "Der Saal hat zwanzig Plätze.", True),
        ("What does the hall cost?", "The hall has 40 seats.", False),
        ("Is the hall open?", "The hall is open.", True),
    ],
)
def test_a_sentence_states_what_is_asked_for(question, sentence, states):
    assert states_asked(question, sentence) == states


def test_of_the_first_24_sentences_those_with_the_words_are_read():
    many = scored("a", " ".join(["Dogs are welcome."] * 24))
    found = agreements("Are dogs welcome?", [many, scored("b", "Dogs are welcome.")])
    assert found[0] > 0
    assert found[1] == 0
    last = scored("a", f"{'Cats sleep. ' * 23}Dogs are welcome.")
    alone = agreements("Are dogs welcome?", [scored("a", "Dogs are welcome.")])
    assert agreements("Are dogs welcome?", [last]) == pytest.approx(alone)
    assert agreements("Are dogs welcome?", []).tolist() == []
