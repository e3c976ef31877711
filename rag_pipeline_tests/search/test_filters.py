import json

import pyarrow as pa
import pytest

from rag_pipeline.errors import InputError
from rag_pipeline.search import vector_index
from rag_pipeline.search.filters import conjunction, parse_filter
from rag_pipeline.store import Store

ROWS = [
    {"document_id": "nda/acme.txt", "title": "It's (a) 100% deal", "start": 0, "end": 9},
    {"document_id": "nda/cedar.txt", "title": "Deal", "start": 5, "end": 30},
    {"document_id": "policy/leave.md", "title": "Leave", "start": 0, "end": 1, "year": 2020},
    {"document_id": "policy/travel.md", "title": "", "start": 7, "end": 8, "day": "2024-05-01"},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    columns = ("document_id", "title", "start", "end")
    made = {name: [row[name] for row in ROWS] for name in columns}
    metadata = [json.dumps({k: r[k] for k in ("year", "day") if k in r}) for r in ROWS]
    rows = pa.table({**made, "metadata": pa.array(metadata, pa.json_(pa.utf8()))})
    stored = Store(str(tmp_path_factory.mktemp("store")), "tiny").table("v", rows.schema)
    stored.ensure()
    stored.replace([], rows.to_batches())
    return stored.dataset()


def kept(table, where):
    rows = vector_index.take(table, vector_index.matching(table, where), ["document_id"])
    return {row["document_id"].partition("/")[2].partition(".")[0] for row in rows.to_pylist()}


@pytest.mark.parametrize(
    ("where", "documents"),
    [
        ("document_id LIKE 'nda/%'", {"acme", "cedar"}),
        ("title NOT LIKE '%\\%%'", {"cedar", "leave", "travel"}),
        ("title ILIKE 'deal' OR start = 7", {"cedar", "travel"}),
        ("title = 'It''s (a) 100% deal' -- and no more", {"acme"}),
        ("start = 0 AND (end > 5 OR title IN ('Leave', 'x'))", {"acme", "leave"}),
        ("start = 5 OR start = 0 AND end = 1", {"cedar", "leave"}),
        ('NOT ("end" BETWEEN 2 AND 10)', {"cedar", "leave"}),
        ("start NOT IN (0, 7)", {"cedar"}),
        ("start > -1 AND end <= 1", {"leave"}),
        ("json_get_int(metadata, 'year') = 2020", {"leave"}),
        ("json_get_string(metadata, 'day') IS NULL", {"acme", "cedar", "leave"}),
        ("TRY_CAST(json_get_string(metadata, 'day') AS DATE) > DATE '2024-01-31'", {"travel"}),
        ("starts_with(document_id, 'policy') AND NOT contains(title, 'eav')", {"travel"}),
        ("lower(title) = 'leave' OR length(title) > 5", {"acme", "leave"}),
        ("title = ''", {"travel"}),
        ("((start = 0) AND (start = 0)) AND document_id != 'x'", {"acme", "leave"}),
        (" OR ".join(f"document_id = 'nda/{n}'" for n in range(5000)), set()),
    ],
)
def test_a_filter_keeps_the_rows_that_it_names(table, where, documents):
    assert kept(table, parse_filter(where)) == documents


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("range(1, 60000000) IS NULL", r"'RANGE\(1, 60000000\)' is not allowed; use only:"),
        ("length(repeat(title, 2000000000)) > 0", r"'REPEAT\(.*is not allowed"),
        ("regexp_like(title, '(a+)+b')", "is not allowed"),
        ("start = ?", "is not allowed"),
        ("start = :x", "is not allowed"),
        ("title ? 'a'", "is not allowed"),
        ("start = $$1$$", "no column"),
        ("nope = 1", "no column 'nope'; columns: chunk_id, document_id"),
        ("v.start = 1", "no column 'v.start'"),
        ("start IN (SELECT 1)", "is not allowed"),
        ("start = (SELECT 1)", "is not allowed"),
        ("start = 0; DROP TABLE v", "is not allowed"),
        ("start = 0 UNION SELECT 1", "is not allowed"),
        ("start = 1e999", "is not allowed"),
        ("start = 99999999999999999999", "is not allowed"),
        ("start + 1 = 1", "is not allowed"),
        ("json_get_string(title, 'a') = 'b'", "needs the column and a key"),
        ("start = 0 LIMIT 1", "this is not a condition"),
        ("start = 0) OR (start = 0", "this is not a condition"),
        ("(start = 0", "this is not a condition"),
        ("title = 'open", "this is not a condition"),
        ("start = 0 /* the rest", "this is not a condition"),
        ("start =", "this is not a condition"),
        ("  ", "the filter is empty"),
        ("NOT (" * 21 + "start = 0" + ")" * 21, "conditions are nested more than 20 levels deep"),
        ("(" * 5000 + "start = 0" + ")" * 5000, "conditions are nested more than 20 levels deep"),
        ("start = " + "- " * 900 + "1", "more than 20"),
        ("start = 1" + "::int" * 900, "more than 20"),
        ("json_get_string(metadata, 'a') = 'b' OR " * 6000, "characters; shorten it to"),
    ],
)
def test_anything_else_is_refused(where, reason):
    with pytest.raises(InputError, match=f"--where.*{reason}") as told:
        parse_filter(where)
    assert len(str(told.value)) < 450


@pytest.mark.parametrize(
    "where",
    ["start LIKE 'x'", "CAST(title AS DOUBLE) = 1", "title > DATE 'soon'", "title", "start = TRUE"],
)
def test_a_comparison_of_the_wrong_types_is_an_error_of_the_filter(table, where):
    with pytest.raises(InputError, match="--where"):
        kept(table, parse_filter(where))


def test_the_deepest_filter_is_read_at_once(table):
    where = "start = 0"
    for _ in range(6):
        where = f"NOT (start = 1 OR NOT ({where}))"
    assert kept(table, parse_filter(where)) == {"acme", "leave"}


def test_conditions_are_joined():
    assert conjunction(None, None) is None
    one = parse_filter("start = 0 OR start = 7")
    assert conjunction(one, None) == one
    assert conjunction(one, "start = 7") == f"{one} AND start = 7"
