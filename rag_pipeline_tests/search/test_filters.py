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
