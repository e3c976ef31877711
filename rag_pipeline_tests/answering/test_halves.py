"""The two questions that a question about two sides, or with two parts, consists of."""

import pytest

from rag_pipeline.answering.halves import halves


@pytest.mark.parametrize(
    ("question", "one", "two"),
    [
        (
            "How long do eggs keep in the shop and in the cellar?",
            "How long do eggs keep in the shop",
            "How long do eggs keep in the cellar",
        ),
        (
            "Is tea dearer in Ulm than in Lyon, and by how much?",
            "Is tea in Ulm",
            "Is tea in Lyon",
        ),
        (
            "Is tea harder to sell in Ulm than in Lyon?",
            "Is tea harder to sell in Ulm",
            "Is tea harder to sell in Lyon",
        ),
        (
            "Wie lange wird Tee in Ulm gelagert und wie lange in Kiel?",
            "Wie lange wird Tee in Ulm gelagert",
            "Wie lange wird Tee in Kiel gelagert",
        ),
        ("Tea price 2024 compared with 2025?", "Tea price 2024", "Tea price 2025"),
        (
            "Deposit: old rules versus new?",
            "Deposit : old rules",
            "Deposit : new",
        ),
        (
            "class A vs class B fire: who comes?",
            "class A fire : who comes",
            "class B fire : who comes",
        ),
        (
            "Who opens earlier, the mill or the barn?",
            "Who opens , the mill",
            "Who opens , the barn",
        ),
        (
            "Wie viel Öl braucht er bei voller und bei halber Last?",
            "Wie viel Öl braucht er bei voller Last",
            "Wie viel Öl braucht er bei halber Last",
        ),
        ("Compare the rent of Acme and\nNew  York.", "the rent of Acme", "the rent of New York"),
        ("Compare Jim the Tall and Bob.", "Jim the Tall", "Bob"),
        (f"Compare tea in Ulm and{' in' * 20} Lyon.", "tea in Ulm", "tea in Lyon"),
        (
            "How long do eggs keep in the cold dark old shop and in the cellar?",
            "How long do eggs keep in the cold dark old shop",
            "How long do eggs keep in the cellar",
        ),
        (
            "Does Ulm beat Ulm, or is it dearer in Ulm than in Lyon?",
            "Does Ulm beat Ulm, or is it in Ulm",
            "Does Ulm beat Ulm, or is it in Lyon",
        ),
    ],
)
def test_each_side_of_a_question_is_asked_about(question: str, one: str, two: str):
    made = halves(question)
    assert made is not None and made.are_sides
    assert made.questions == (one, two)


@pytest.mark.parametrize(
    ("question", "second"),
    [
        ("Who won the cup, and when?", "when won the cup"),
        ("Who won the cup and what did it cost?", "what did it cost ( Who won the cup )"),
    ],
)
def test_the_second_part_of_a_question_has_the_words_of_the_first(question: str, second: str):
    made = halves(question)
    assert made is not None and not made.are_sides
    assert made.questions == ("Who won the cup", second)


@pytest.mark.parametrize(
    "question",
    [
        "Who works in Ulm and Lyon?",
        "Which people who work here and who have a key may stay?",
        "Is it read from the keel or from the deck?",
        "How long do eggs keep in the very cold dark old shop and in the cellar?",
        "May it last more than ten days?",
    ],
)
def test_other_questions_are_whole(question: str):
    assert halves(question) is None
