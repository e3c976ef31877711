import pytest

from rag_pipeline.errors import InputError
from rag_pipeline.search.filters import as_written, filter_of


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ((None, None), None),
        (("a = 1", None), "(a = 1)"),
        (("a = 1 OR b = 2", "c IN (1)"), "(a = 1 OR b = 2) AND (c IN (1))"),
        (("a = 'it''s; (--'",), "(a = 'it''s; (--')"),
        (('"odd ;name" = 1',), '("odd ;name" = 1)'),
    ],
)
def test_parts_are_joined(parts, joined):
    assert filter_of(*parts) == joined


@pytest.mark.parametrize(
    "where",
    [
        "1 = 1; DROP TABLE a",
        "1 = 1) OR (1 = 1",
        "(1 = 1",
        "1 = 1 -- the rest",
        "1 = 1 /* the rest",
        "a = 'open",
        "a = E'\\') OR (1 = 1 OR a = ''",
        "a = $$'$$ ) OR ( b = $$'$$",
        "  ",
    ],
)
def test_a_filter_that_leaves_its_parentheses_is_refused(where):
    with pytest.raises(InputError, match="--where"):
        filter_of(where, "document_id = 'a'")


def test_a_filter_is_shown_as_it_was_written():
    assert as_written("((a = 1))") == "a = 1"
    assert as_written("(a = 1) AND (b = 2)") == "(a = 1) AND (b = 2)"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("a = 1" + "+1" * 900, "more than 50 operators"),
        ("a = 1" + "+-" * 900 + "1", "more than 50 operators"),
        ("a" + "::int" * 60 + " = 1", "more than 50 operators"),
        ("b" + " IS NULL" * 60, "more than 50 operators"),
        ("a" + " BETWEEN 1 AND 2" * 60 + " = b", "more than 50 operators"),
        ("NOT(" * 21 + "b" + ")" * 21, "more than 20 parentheses"),
        ("length(repeat(text, 2000000000)) > 0", r"repeat\(\) can make texts of any size"),
        ('length("repeat" (text, 9)) > 0', r"repeat\(\)"),
        ("length(array_repeat(text, 9)) > 0", r"array_repeat\(\)"),
    ],
)
def test_a_filter_that_would_end_the_process_is_refused(where, reason):
    with pytest.raises(InputError, match=f"--where .*{reason}") as told:
        filter_of(where)
    assert len(str(told.value)) < 400


def test_a_filter_of_many_conditions_is_none_of_these():
    where = " OR ".join(f"document_id = 'a-{n}+(repeat(*2)'" for n in range(5000))
    assert filter_of(filter_of(where), "title IN ('+')").startswith("((document_id")
    deep = "(" * 40 + "a = 1" + ")" * 40
    assert as_written(filter_of(filter_of(deep))).startswith("((((")
