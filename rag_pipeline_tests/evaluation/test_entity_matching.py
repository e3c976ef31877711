from decimal import Decimal

import pytest

from rag_pipeline.evaluation.entities import extract, find
from rag_pipeline.evaluation.entities.values import quantities, read_number


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("TIME", "five (5) years", "5 years"),
        ("TIME", "five years", "60 months"),
        ("TIME", "two weeks", "14 days"),
        ("TIME", "48 hours", "two days"),
        ("TIME", "45-day", "forty-five (45) days"),
        ("TIME", "one hundred and twenty (120) days", "120 days"),
        ("TIME", "ten business days", "10 working days"),
        ("TIME", "June 30", "30 June 2025"),
        ("TIME", "fifth (5th) day", "5th day"),
        ("TIME", "7 p.m.", "7:00 pm"),
        ("MONEY", "EUR 75,000", "75,000 euros"),
        ("MONEY", "€75,000", "EUR 75000"),
        ("MONEY", "$1.5 million", "USD 1,500,000"),
        ("MONEY", "ten pounds", "£10"),
        ("PERCENTAGE", "fifty percent (50%)", "half"),
        ("PERCENTAGE", "99.9 per cent", "99.9%"),
        ("PERCENTAGE", "one hundred and fifty percent (150%)", "150%"),
        ("CONDITION", "the Employee’s consent", "employee's consent"),
        ("CONDITION", "terminated", "termination"),
    ],
)
def test_the_same_fact_in_other_words_is_found_both_ways(kind, one, other):
    assert find(kind, one, f"It says {other} there.", 88.0)
    assert find(kind, other, f"It says {one} there.", 88.0)


@pytest.mark.parametrize(
    ("kind", "fact", "text"),
    [
        ("TIME", "two years", "ten years"),
        ("TIME", "5 years", "15 years"),
        ("TIME", "30 days", "one month"),
        ("TIME", "ten business days", "ten days"),
        ("TIME", "1 June 2024", "1 June 2025"),
        ("TIME", "5th day", "5 days"),
        ("MONEY", "USD 10", "EUR 10"),
        ("MONEY", "$10", "$10,000"),
        ("PERCENTAGE", "5%", "15%"),
        ("PERCENTAGE", "7%", "7 years"),
        ("CONDITION", "half pay", "full pay"),
        ("CONDITION", "not Representatives", "they are Representatives"),
        ("CONDITION", "reimbursed", "fees are paid"),
        ("LOCATION", "Austria", "Australia"),
        ("ORGANIZATION", "Brennwater", ""),
    ],
)
def test_another_fact_is_not(kind, fact, text):
    assert find(kind, fact, text, 88.0) is None


def test_where_a_fact_stands():
    text = "It lasts for five (5) years from then."
    start, end = find("TIME", "60 months", text, 88.0)
    assert text[start:end] == "five (5) years"


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


@pytest.mark.parametrize(
    ("text", "kind", "entity"),
    [
        ("It lasts in perpetuity.", "TIME", "in perpetuity"),
        ("Counted from the date of disclosure.", "TIME", "from the date of disclosure"),
        ("The courts of Hamburg decide.", "LOCATION", "Hamburg"),
        ("Austrian law applies.", "LOCATION", "Austrian"),
        ("Within a 50-mile radius.", "LOCATION", "50-mile radius"),
        ("Signed by Acme Rockets Inc. today.", "ORGANIZATION", "Acme Rockets Inc."),
        ("Told to prospective lenders.", "ORGANIZATION", "prospective lenders"),
        ("Unless the Customer opts out, we may.", "CONDITION", "Unless the Customer opts out"),
        ("You shall destroy all copies.", "ACTION", "shall destroy all copies"),
        ("The bonus is forfeited.", "ACTION", "is forfeited"),
        ("A fee of 4 percent.", "PERCENTAGE", "4 percent"),
        ("It costs £1,150.", "MONEY", "£1,150"),
    ],
)
def test_each_type_is_extracted_by_rules(text, kind, entity):
    assert entity in [found.text for found in extract(text) if found.kind == kind]


@pytest.mark.parametrize("part", ["(", "one hundred and ", "A ", "A.", "if ", "1,", "from the "])
def test_text_that_repeats_itself_does_not_make_a_pattern_explode(part):
    extract(part * 1_000)
