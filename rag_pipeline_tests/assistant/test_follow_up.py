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


@pytest.mark.parametrize(
    ("question", "is_follow_up"),
    [
        ("What does it cost to cancel after cutting has started?", False),
        ("How long does it take to repair a sail?", False),
        ("Is it allowed to smoke in the loft?", False),
        ("Does it rain often in the workshop?", False),
        ("Is there a discount for members?", False),
        ("wie lange dauert es, bis das Segel fertig ist?", False),
        ("ist es erlaubt, im lager zu rauchen?", False),
        ("wie viele tage gibt es für teilzeit?", False),
        ("combien de jours faut-il pour une voile ?", False),
        ("cuál es el precio de la vela?", False),
        ("Was ist ein Sabbatical?", False),
        ("What is the rule that applies to dogs?", False),
        ("Do staff have to wash their uniforms?", False),
        ("Can they keep their keys?", True),
        ("Was ist mit Kiel?", True),
        ("What is the price of that boat today?", True),
        ("How much does it cost?", True),
        ("What does it cost for members?", True),
        ("What does it cost to cancel it?", True),
        ("How long does it take?", True),
        ("Is it allowed?", True),
        ("Is it possible to cancel?", True),
        ("Was it used to pay the rent?", True),
        ("Is there a fee?", True),
        ("was kostet es dort?", True),
        ("And in Kiel?", True),
        ("What about 2025?", True),
    ],
)
def test_an_it_that_stands_for_nothing_makes_no_follow_up(question, is_follow_up):
    before = "How many days of holiday do full-time staff have?"
    assert (complete(question, [before]) != question) == is_follow_up
