"""Pairs of a fact and a text, labelled by hand: does the text state the fact?"""

from collections import Counter
from pathlib import Path

import pytest

from rag_pipeline.answering.support import supports
from rag_pipeline.evaluation.entities import extract, find, score_entities

ROWS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("entity_pairs.tsv").read_text("utf-8").splitlines()
]
"""Lines of: yes or no, kind of fact, fact, text. Labelled before the rules were held to them."""


def test_the_file_has_both_answers_for_every_kind():
    counted = Counter((label, kind) for label, kind, *_ in ROWS)
    assert len(ROWS) >= 200
    assert {kind for _, kind in counted} == {
        "TIME", "MONEY", "PERCENTAGE", "ACTION", "CONDITION", "LOCATION", "ORGANIZATION"
    }  # fmt: skip
    assert all(counted[label, kind] for _, kind in counted for label in ("yes", "no"))


def test_of_the_labelled_pairs_98_percent_are_right():
    wrong = [
        (label, kind, fact, text)
        for label, kind, fact, text in ROWS
        if (find(kind, fact, text, 88.0) is not None) != (label == "yes")
    ]
    assert len(wrong) <= 0.02 * len(ROWS), wrong


def test_what_is_made_up_lowers_the_open_precision():
    """Of two entities one is expected; an extractor that returns nothing has no precision."""
    answer = "It lasts five years and costs USD 9,999,999."
    truth = {"TIME": [["5 years"]]}
    score = score_entities(answer, extract(answer), truth)
    assert (score.right, score.total.precision) == (1, 1.0)
    assert score.stated >= 2
    assert score_entities(answer, [], truth).stated == 0


@pytest.mark.parametrize(
    ("passage", "sentence", "holds"),
    [
        ("The Recipient shall not disclose it.", "The Recipient shall disclose it.", False),
        ("The Recipient shall disclose it.", "The Recipient shall not disclose it.", False),
        ("The Recipient shall not disclose it.", "The Recipient shall not disclose it.", True),
        ("The Recipient cannot disclose it.", "The Recipient can disclose it.", False),
        ("It shall not sell it but shall disclose it.", "It shall disclose it.", True),
    ],
)
def test_support_has_the_same_polarity(passage, sentence, holds):
    assert supports(passage, sentence, 0.5) is holds
