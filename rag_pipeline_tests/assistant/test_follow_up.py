import pytest

from rag_pipeline.assistant.follow_up import complete

PORTO = "How many suppliers are in Porto?"


@pytest.mark.parametrize(
    ("turns", "question", "whole"),
    [
        ([PORTO], "and in Lyon?", "How many suppliers are in Lyon?"),
        ([PORTO, "and in Lyon?"], "And in Rome?", "How many suppliers are in Rome?"),
        (["What was the cost in 2023?"], "And 2024?", "What was the cost in 2024?"),
        (["What is the fee of Acme?"], "What about Globex?", "What is the fee of Globex?"),
        (
            ["What do we take for a cargo bike in Porto?"],
            "And for an e-bike?",
            "What do we take for an e-bike in Porto?",
        ),
        (["Wie viele sitzen in Porto?"], "Und in Kiel?", "Wie viele sitzen in Kiel?"),
        (["Combien de navires à Porto ?"], "Et à Lyon ?", "Combien de navires à Lyon ?"),
        (["How long does the Acme NDA last?"], "Who signed it?", "Who signed it? (Acme NDA)"),
        ([PORTO], "Is parking free?", "Is parking free?"),
        ([], "and in Lyon?", "and in Lyon?"),
    ],
)
def test_a_follow_up_question_is_completed_from_the_turns_before(turns, question, whole):
    assert complete(question, turns) == whole
