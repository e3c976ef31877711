"""Unusable query files, each with a part of its error message."""

from typing import Any

GOOD = {"query_id": "q", "query": "x"}


def with_span(**span: Any) -> dict[str, Any]:
    return {**GOOD, "gold_spans": [span]}


WRONG_LINES: list[tuple[Any, str]] = [
    ("{", "not valid JSON"),
    ('{"query_id": "q", "query": "x"', "not valid JSON: Expecting ',' delimiter (column"),
    ("nonsense", "not valid JSON"),
    ("[" * 100_000, "nested too deeply"),
    ("1" * 5000, "unusable JSON"),
    ("[]", "expected a JSON object"),
    ("null", "null: expected a JSON object"),
    ('"text"', '"text": expected a JSON object'),
    ({"query": "x"}, "query_id: missing; expected in every query"),
    ({"query_id": "q"}, "query: missing"),
    ({"query_id": True, "query": "x"}, "query_id: true: expected string"),
    ({"query_id": 1.5, "query": "x"}, "query_id: 1.5: expected string"),
    ({"query_id": None, "query": "x"}, "query_id: null: expected string"),
    ({"query_id": "", "query": "x"}, 'query_id: "": expected text, not only white space'),
    ({"query_id": "q", "query": " \n"}, 'query: " \\n": expected text, not only white space'),
    ({"query_id": "q", "query": 3}, "query: 3: expected string"),
    ({"query_id": "q", "query": "\ud800"}, r'query: "\ud800": expected valid Unicode'),
    ({**GOOD, "question": "x"}, 'question: "x": unknown field; expected one of: query_id'),
    ({**GOOD, "gold_span": []}, "put fields of your own under `metadata`"),
    ({**GOOD, "metadata": 3}, "metadata: 3: expected object"),
    ({**GOOD, "answer": ""}, "answer: "),
    ({**GOOD, "answer": 5}, "answer: 5: expected string"),
    ({**GOOD, "tags": "a"}, 'tags: "a": expected list'),
    ({**GOOD, "tags": [1]}, "tags.0: 1: expected string"),
    ({**GOOD, "gold_spans": {}}, "gold_spans: {}: expected list"),
    ({**GOOD, "gold_spans": ["a"]}, 'gold_spans.0: "a": expected a JSON object'),
    (with_span(start=1, end=2), "gold_spans.0.document_id: missing; expected in every gold"),
    (with_span(document_id="a", start=1), "expected `start` and `end` together"),
    (with_span(document_id="a", end=1), "expected `start` and `end` together"),
    (with_span(document_id="a", start=2, end=2), "expected start < end, not 2 and 2"),
    (with_span(document_id="a", start=-1, end=2), "gold_spans.0.start: -1: expected greater"),
    (with_span(document_id="a", start=1.0, end=2), "gold_spans.0.start: 1.0: expected integer"),
    (with_span(document_id="a", start="1", end=2), 'gold_spans.0.start: "1": expected integer'),
    (with_span(document_id="a", start=False, end=2), "gold_spans.0.start: false: expected int"),
    (with_span(document_id="a", quote=""), 'gold_spans.0.quote: "": expected text'),
    (with_span(document_id="a", quote="x", chunk="y"), "expected one of: document_id, start"),
    ({**GOOD, "entities": []}, "entities: []: expected object"),
    ({**GOOD, "entities": {"DATE": ["x"]}}, 'entities.DATE: "DATE": expected one of: TIME, M'),
    ({**GOOD, "entities": {"TIME": "x"}}, 'entities.TIME: "x": expected list'),
    ({**GOOD, "entities": {"TIME": [[]]}}, "entities.TIME.0: []: expected at least one varia"),
    ({**GOOD, "entities": {"TIME": [["a", 2]]}}, "entities.TIME.0.1: 2: expected string"),
    ({**GOOD, "entities": {"TIME": [" "]}}, 'entities.TIME.0.0: " ": expected text'),
    ({**GOOD, "critical_types": ["time"]}, 'critical_types.0: "time": expected one of: TIME'),
]

UNUSABLE_FILES = [
    (b"", "it has no queries"),
    (b"\n \n", "it has no queries"),
    (b'{"query_id": "q",\n"query": "\xe9"}', "q.jsonl:2: not UTF-8 text: byte 0xe9 at offset 10"),
    ('{"query_id": "q", "query": "x"}'.encode("utf-16"), "q.jsonl:1: not UTF-8 text: byte 0xff"),
]

TEXT = "Fee: 5 €.\nThe fee of 5 € is due\nmonthly."
"""A document of 40 characters, beside one with the text `Other.`"""

LOST_SPANS = [
    ({"document_id": "c", "start": 0, "end": 1}, 'there is no document "c"'),
    ({"document_id": "a", "start": 0, "end": 41}, '0-41 lies outside "a", which has 40 char'),
    (
        {"document_id": "a", "start": 0, "end": 3, "quote": "fees"},
        'does not hold "fees"; 0-3 is now',
    ),
    ({"document_id": "a", "quote": "5 €"}, 'holds the quote "5 €" 2 times (at 5, 21)'),
    ({"document_id": "a", "quote": "FEE"}, 'holds the quote "FEE" 2 times (at 0, 14)'),
    (
        {"document_id": "a", "quote": "The free of 5 € was due"},
        'the most similar text is "The fee of 5 € is due\\nmonthly"; copy it',
    ),
    ({"document_id": "a", "quote": "yearly"}, """doesn't hold the quote "yearly"; copy it"""),
]
"""Spans that are not found in these documents."""
