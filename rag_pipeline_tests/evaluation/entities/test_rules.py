import pytest

from rag_pipeline.evaluation.entities.rules import extract


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


def test_an_ordinal_period_is_read_before_of_and_no_date_is_taken_for_one():
    found = [
        e.text for e in extract("A note is due from the fifth (5th) consecutive day of absence.")
    ]
    assert "fifth (5th) consecutive day" in found
    assert "third day" not in [e.text for e in extract("It ends on the third day of March.")]


def test_what_a_period_runs_from_and_what_a_sum_recurs_by_are_no_statements_of_their_own():
    def times(text):
        return [e.text for e in extract(text) if e.kind == "TIME"]

    assert times("It lasts for ten (10) years after expiry.") == ["ten (10) years"]
    assert times("She works three days a week for USD 60 a month.") == ["three days"]
    assert times("After expiry it lasts for ten years.") == ["ten years", "After expiry"]
    assert times("Invoices are sent each month.") == ["each month"]
