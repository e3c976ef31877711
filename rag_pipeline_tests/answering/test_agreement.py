import math
from dataclasses import replace

import numpy as np
import pytest

from rag_pipeline.answering.agreement import ranked_sentences
from rag_pipeline.answering.extractive import extract_answers
from rag_pipeline.answering.facts import states_asked
from rag_pipeline.answering.polarity import bounded_as
from rag_pipeline.answering.reading import multilingual, sentence_vectors
from rag_pipeline.answering.sentences import Sentence
from rag_pipeline.config import ExtractiveAnswers
from rag_pipeline.datamodels import SearchResult
from rag_pipeline_tests.testing.chunking import scored


def agreements(question, chunks):
    return ranked_sentences(question, chunks).of_chunks(len(chunks))


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
    values = [cosine(question, row) + 0.04 - 0.04 + 0.06 * math.log(3) for row in rows]
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
    question, text = "Does Tambor open?", "Die Kantine öffnet um elf Uhr und schließt um zwei."
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
        ("When does hall 3 open?", "Hall 3 opens at 9:30.", True),
        ("When does hall 3 open?", "Hall 3 opens early.", False),
        ("Is the hall open?", "The hall is open.", True),
    ],
)
def test_a_sentence_states_what_is_asked_for(question, sentence, states):
    assert states_asked(question, sentence) == states


def test_the_model_reads_the_likeliest_sentences_and_those_of_the_first_passages():
    first = scored("a", " ".join(f"Cats sleep in basket {n}." for n in range(20)))
    last = scored("b", " ".join(f"Dogs are welcome in hall {n}." for n in range(20)))
    ranked = ranked_sentences("Are dogs welcome?", [first, last])
    assert len(ranked.sentences) == 40
    read = [one.text for one, value in zip(*ranked[::2], strict=True) if value]
    assert len(read) == 12
    assert sum(text.startswith("Dogs") for text in read) == 9
    assert {f"Cats sleep in basket {n}." for n in range(3)} < {*read}
    assert ranked.sentences[0].text.startswith("Dogs")
    assert ranked_sentences("Are dogs welcome?", []).sentences == []


def test_the_score_is_what_the_definition_says():
    question = "What does the hall cost?"
    texts = ["The hall costs 270 euros.", "Halls cost?", "Die Wand ist aus Holz und Stein gebaut."]
    chunks = [scored(name, text) for name, text in zip("abc", texts, strict=True)]
    chunks = [replace(c, score=score) for c, score in zip(chunks, (4.0, 2.0, 1.0), strict=True)]
    sentences, scores, _ = ranked_sentences(question, chunks)
    values = [cosine(question, text) for text in texts]
    # Fewer than three sentences of a language are compared with all.
    meant = [50 * (value - sum(values) / 3) for value in values]
    # Both English sentences have both words of the question; only the first states an amount.
    expected = [6.6 + 5.6 + 2.3 + meant[0], 6.6 + 5.6 / 2 - 1.7 + meant[1]]
    expected.append(1.2 + 5.6 / 4 + meant[2])
    known = {one.text: score for one, score in zip(sentences, scores, strict=True)}
    assert [known[text] for text in texts] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("question", "text", "side"),
    [
        ("Who signs for more than 20 ovens?", "Up to 20 ovens the owner signs.", -1),
        ("Who signs for more than 20 ovens?", "Above 20 ovens the owner signs.", 1),
        ("Who signs for more than 20 ovens?", "Up to 20: the baker. Over 20: the owner.", 1),
        ("Who signs for more than 20 ovens?", "Up to 20 trays the owner signs.", 0),
        ("Who signs for more than 20 ovens?", "Up to 21 ovens the owner signs.", 0),
        ("Who signs for 20 ovens?", "Up to 20 ovens the owner signs.", 0),
        ("May we run more than 20 ovens?", "Up to 20 ovens may run.", 0),
        ("Who signs for over £500?", "The owner signs for £500 or less.", -1),
        ("Wer zahlt über 500 Euro?", "Höchstens 500 € zahlt die Kasse.", -1),
        ("Wer zahlt mehr als 500 Euro?", "Bis zu 500 € zahlt die Kasse.", -1),
        ("Wer zahlt weniger als 500 Euro?", "Unter 500 € zahlt die Kasse.", 1),
        ("Qui paie au-delà de 12 kg ?", "Jusqu'à 12 kg, la caisse.", -1),
        ("Qui paie plus de 12 kg ?", "Moins de 12 kg : la caisse.", -1),
        ("Qui paie plus de 12 kg ?", "Pas plus de 12 kg : la caisse.", -1),
        ("Qui paie moins de 12 kg ?", "Au moins 12 kg : la caisse.", -1),
        ("¿Quién paga más de 12 kg?", "Hasta 12 kg paga la caja.", -1),
    ],
)
def test_a_quantity_may_have_the_bound_of_the_question_or_the_opposite_one(question, text, side):
    assert bounded_as(question, text) == side


@pytest.mark.parametrize(
    "weights", [None, np.ones(40_000, np.float32)], ids=["sentences", "tokens"]
)
def test_a_sentence_with_the_opposite_bound_does_not_answer(weights):
    chunk = scored(
        "bakery", "Up to nine burnt loaves: tell Ida. More than nine burnt loaves: ring Ole."
    )
    question = "Whom do I tell about more than nine burnt loaves?"
    settings = ExtractiveAnswers(confidence=0.0)
    found = SearchResult(query=question, chunks=[chunk], token_weights=weights)
    (answer,) = extract_answers([found], settings, sentence_vectors)
    assert [c.text for c in answer.citations] == ["More than nine burnt loaves: ring Ole."]
