import json

import pytest
from pydantic import TypeAdapter, ValidationError

from rag_pipeline.errors import InputError
from rag_pipeline.search.filters import parse_filter
from rag_pipeline.serving.v1.filters import Comparison, Compound, where_of

FILTERS = TypeAdapter(Comparison | Compound)
YEAR = "TRY_CAST(json_get_string(metadata, 'year') AS DOUBLE)"


def one(kind, value, key="year"):
    return {"type": kind, "key": key, "value": value}


def sql(filters):
    return where_of(FILTERS.validate_json(json.dumps(filters)))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (one("eq", "a'b"), "json_get_string(metadata, 'year') = 'a''b'"),
        (one("ne", True), "json_get_string(metadata, 'year') != 'true'"),
        (one("gt", 2), f"{YEAR} > 2.0"),
        (one("gte", 2.5), f"{YEAR} >= 2.5"),
        (one("lt", -1), f"{YEAR} < -1.0"),
        (one("lte", "2024-05-01", "title"), "title <= '2024-05-01'"),
        (one("in", [1, 2]), f"{YEAR} IN (1.0, 2.0)"),
        (one("nin", ["a", "b"], "filename"), "document_id NOT IN ('a', 'b')"),
        (
            {"type": "or", "filters": [one("eq", 1), {"type": "and", "filters": [one("lt", 3)]}]},
            f"({YEAR} = 1.0) OR (({YEAR} < 3.0))",
        ),
    ],
)
def test_filters_become_conditions_of_the_own_language(filters, expected):
    assert sql(filters) == expected
    parse_filter(expected)


def nested(depth):
    return one("eq", 1) if not depth else {"type": "and", "filters": [nested(depth - 1)]}


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (one("in", "a"), "needs a list"),
        (one("in", []), "needs a list"),
        (one("in", [1, "a"]), "mixes numbers"),
        (one("eq", [1]), "needs one value"),
        (one("gt", False), "only by eq and ne"),
        ({"type": "or", "filters": [{"type": "or", "filters": [one("eq", 1)] * 60}] * 2}, "120"),
    ],
)
def test_what_has_no_meaning_is_refused(filters, message):
    with pytest.raises(InputError, match=message):
        sql(filters)


@pytest.mark.parametrize(
    "filters", [one("like", "a"), {"type": "and", "filters": []}, {"type": "eq"}, nested(300)]
)
def test_other_forms_are_refused(filters):
    with pytest.raises(ValidationError):
        sql(filters)


def test_numbers_that_are_none_are_refused():
    for number in ("NaN", "Infinity"):
        filters = FILTERS.validate_json(f'{{"type": "eq", "key": "a", "value": {number}}}')
        with pytest.raises(InputError, match="finite"):
            where_of(filters)
