"""Pairs of a fact and a text, labelled by hand: does the text state the fact?"""

import pytest

from rag_pipeline.answering.support import supports
from rag_pipeline.evaluation.entities import extract, find, score_entities

STATED = [
    ("TIME", "five years", "for 5 (five) years"),
    ("TIME", "five years", "for five (5) years"),
    ("TIME", "3 years", "a term of 3 yrs"),
    ("TIME", "36 months", "a term of 3 yrs"),
    ("TIME", "90 minutes", "within 90 mins"),
    ("TIME", "2 weeks", "14 days"),
    ("TIME", "January 2, 2024", "signed on 1/2/2024"),
    ("TIME", "1 February 2024", "signed on 1/2/2024"),
    ("TIME", "2024-02-01", "am 1.2.2024"),
    ("TIME", "31 December 2024", "by 31/12/2024"),
    ("TIME", "December 31, 2024", "by 12/31/2024"),
    ("TIME", "30 days", "at least 30 days"),
    ("TIME", "at least 30 days", "no less than 30 days"),
    ("TIME", "at most 30 days", "not more than 30 days"),
    ("TIME", "at most 30 days", "30 days or less"),
    ("TIME", "at least 30 days", "a minimum of 30 days"),
    ("MONEY", "USD 10,000", "up to $10,000"),
    ("MONEY", "not exceeding EUR 5,000", "a maximum of EUR 5000"),
    ("PERCENTAGE", "at least 50%", "no less than fifty percent"),
    ("ACTION", "may terminate", "Either party may terminate this Agreement."),
    ("ACTION", "may not terminate", "The Supplier may not terminate it."),
    ("CONDITION", "confidential", "All of it is confidential."),
    ("CONDITION", "non-confidential", "It is non-confidential information."),
]
NOT_STATED = [
    ("TIME", "five years", "for 6 (six) years"),
    ("TIME", "3 years", "a term of 3 mos"),
    ("TIME", "3 January 2024", "signed on 1/2/2024"),
    ("TIME", "1 February 2024", "signed on 2.1.2024"),
    ("TIME", "at least 30 days", "at most 30 days"),
    ("TIME", "at most 30 days", "at least 30 days"),
    ("TIME", "at least 30 days", "no more than 30 days"),
    ("TIME", "at most 30 days", "30 days or more"),
    ("TIME", "within 30 days", "31 days"),
    ("MONEY", "at least USD 10,000", "up to $10,000"),
    ("PERCENTAGE", "more than 50%", "less than 50%"),
    ("ACTION", "terminate", "Either party may not terminate this Agreement."),
    ("ACTION", "disclosed", "It shall not be disclosed."),
    ("ACTION", "may not terminate", "Either party may terminate this Agreement."),
    ("CONDITION", "confidential", "It is non-confidential information."),
    ("CONDITION", "confidential", "It is nonconfidential information."),
    ("CONDITION", "non-confidential", "All of it is confidential."),
    ("CONDITION", "reasonable", "It is unreasonable."),
    ("CONDITION", "prior written consent", "without prior written consent"),
]


@pytest.mark.parametrize(("kind", "fact", "text"), STATED)
def test_what_is_stated_is_found(kind, fact, text):
    assert find(kind, fact, text, 88.0) is not None


@pytest.mark.parametrize(("kind", "fact", "text"), NOT_STATED)
def test_what_is_not_stated_is_not_found(kind, fact, text):
    assert find(kind, fact, text, 88.0) is None


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
