import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.datamodels import GoldSpan
from rag_pipeline.errors import InputError
from rag_pipeline.loading.queries import QueryRecord, read_queries, resolve_queries
from rag_pipeline_tests.testing.broken_queries import GOOD, LOST_SPANS, TEXT, WRONG_LINES


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: Any) -> Path:
        path = tmp_path / "queries.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return path

    return write


def test_reads_every_field(write: Callable[..., Path]) -> None:
    path = write(
        {
            "query_id": 7,
            "query": "When does it end?",
            "gold_spans": [
                {"document_id": "a.md", "start": 3, "end": 9, "quote": "May 31"},
                {"document_id": 12, "quote": "two years"},
            ],
            "answer": "On May 31.",
            "entities": {"TIME": [["May 31", "31 May"], "two years"], "MONEY": ["$5"]},
            "critical_types": ["TIME"],
            "tags": ["dates"],
            "metadata": {"annotator": 3, "anything": {"else": None}},
        },
        {"query_id": "b", "query": "No gold?"},
    )
    first, second = read_queries(path)
    assert first.query_id == "7"
    assert first.gold_spans[1].document_id == "12"
    assert first.entities == {"TIME": (("May 31", "31 May"), ("two years",)), "MONEY": (("$5",),)}
    assert first.metadata == {"annotator": 3, "anything": {"else": None}}
    assert (second.gold_spans, second.answer, second.entities) == ((), None, {})


def test_skips_blank_lines_a_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"query_id": "a", "query": "x"}\r\n\r\n  \n{"query_id": "b", "query": "y"}'
    )
    assert [r.query_id for r in read_queries(path)] == ["a", "b"]


@pytest.mark.parametrize(("line", "message"), WRONG_LINES)
def test_one_error_names_line_field_value_and_expectation(
    tmp_path: Path, line: Any, message: str
) -> None:
    path = tmp_path / "queries.jsonl"
    broken = line if isinstance(line, str) else json.dumps(line)
    path.write_text(f'{{"query_id": "good", "query": "x"}}\n{broken}\n', encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_queries(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_collects_mistakes_up_to_eight(write: Callable[..., Path]) -> None:
    with pytest.raises(InputError) as error:
        read_queries(write(*({"query_id": i} for i in range(9))))
    assert str(error.value).count("query: missing") == 9
    assert "more)" not in str(error.value)
    path = write(*({"query_id": i} for i in range(11)))
    with pytest.raises(InputError) as error:
        read_queries(path)
    lines = str(error.value).split("\n")
    assert lines[0] == f"{path}:1: query: missing; expected in every query"
    assert len(lines) == 9
    assert lines[-1] == "(and 3 more)"


def test_duplicate_query_id_names_both_lines(write: Callable[..., Path]) -> None:
    path = write({**GOOD, "query_id": "1"}, GOOD, {**GOOD, "query_id": 1})
    with pytest.raises(InputError, match=r':3: query_id: "1": line 1 already has it'):
        read_queries(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read: No such file"):
        read_queries(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="can't be read: Is a directory"):
        read_queries(tmp_path)


# --- gold spans in their documents ---


def record(query_id: str, *spans: dict[str, Any]) -> QueryRecord:
    return QueryRecord.model_validate({"query_id": query_id, "query": "x", "gold_spans": spans})


def resolved(text: str | None, **span: Any) -> tuple[list[GoldSpan], list[str]]:
    """Find a span in a text; return the gold spans and the problems."""
    records = [record("q", {"document_id": "x", **span})]
    queries, problems = resolve_queries(records, lambda _: text)
    return [found for query in queries for found in query.gold_spans], problems


def texts(document_id: str) -> str | None:
    return {"a": TEXT, "b": "Other."}.get(document_id)


def test_resolves_offsets_and_quotes_and_asks_for_each_document_once() -> None:
    asked: list[str] = []

    def text_of(document_id: str) -> str | None:
        asked.append(document_id)
        return texts(document_id)

    records = [
        record(
            "1", {"document_id": "a", "start": 0, "end": 3}, {"document_id": "b", "quote": "Ot"}
        ),
        record("2", {"document_id": "a", "quote": "fee of 5 €"}),
        record("3"),
        record("4", {"document_id": "a", "start": 14, "end": 17, "quote": "fee"}),
        record(
            "5", {"document_id": "b", "start": 0, "end": 2}, {"document_id": "b", "quote": "Ot"}
        ),
    ]
    queries, problems = resolve_queries(records, text_of)
    assert problems == []
    assert asked == ["a", "b"]
    assert [q.gold_spans for q in queries] == [
        (GoldSpan("a", 0, 3), GoldSpan("b", 0, 2)),
        (GoldSpan("a", 14, 24),),
        (),
        (GoldSpan("a", 14, 17),),
        (GoldSpan("b", 0, 2),),
    ]


@pytest.mark.parametrize(("span", "message"), LOST_SPANS)
def test_a_query_with_a_lost_span_is_left_out(span: dict[str, Any], message: str) -> None:
    good = {"document_id": "b", "quote": "Other"}
    queries, problems = resolve_queries([record("bad", good, span), record("good", good)], texts)
    assert [q.query_id for q in queries] == ["good"]
    assert len(problems) == 1
    assert problems[0].startswith("query bad: gold_spans.1: ")
    assert message in problems[0]


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("is due\r\n   monthly.", "due monthly", "due\r\n   monthly"),
        ("the obliga-\n  tions last", "obligations last", "obliga-\n  tions last"),
        ("the obligations last", "obliga-\ntions", "obligations"),
        ("a state-of-the-\nart tool", "state-of-the-art", "state-of-the-\nart"),
        ("the soft\u00adware is", "software", "soft\u00adware"),
        ("an e\ufb03cient \ufb01x.", "efficient fix", "e\ufb03cient \ufb01x"),
        (
            "he said \u201cNo\u201d \u2014 it\u2019s",
            '"no" - it\'s',
            "\u201cNo\u201d \u2014 it\u2019s",
        ),
        ("Cafe\u0301 au lait", "Caf\u00e9 au", "Cafe\u0301 au"),
        (
            "\u5951\u7d04\u306e\n\u671f\u9593",
            "\u5951\u7d04\u306e\u671f\u9593",
            "\u5951\u7d04\u306e\n\u671f\u9593",
        ),
        ("Terms. terms", "terms", "terms"),  # the exact one, whatever else would match
    ],
)
def test_a_quote_is_found_in_any_typography(text: str, quote: str, found: str) -> None:
    (span,), _ = resolved(text, quote=quote)
    assert text[span.start : span.end] == found


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("a loss of 5", "-5"),
        ("from 5-10", "510"),
        ("\ufb01x", "ix"),  # would cut the ligature
        ("\u2060\u200b a", "\u200d\u2060"),  # nothing that is seen
    ],
)
def test_another_text_does_not_match(text: str, quote: str) -> None:
    spans, (problem,) = resolved(text, quote=quote)
    assert spans == []
    assert "doesn't hold the quote" in problem


def test_a_quote_with_offsets_may_differ_in_typography() -> None:
    found = resolved("The fee\r\n\r\n is", start=4, end=14, quote="fee  Is")
    assert found == ([GoldSpan("x", 4, 14)], [])


def test_a_quote_with_offsets_follows_an_edit_of_its_document() -> None:
    edited = "New. Fee: 5 €. Fee: 5 €."
    for before, now in ((0, 5), (9, 5), (12, 15), (40, 15)):
        found = resolved(edited, start=before, end=before + 8, quote="Fee: 5 €")
        assert found == ([GoldSpan("x", now, now + 8)], [])


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("acme.txt", 'did you mean "nda/acme.txt"?'),
        ("nda/ACME.txt", 'did you mean "nda/acme.txt"?'),
        ("nda/cedr.txt", 'did you mean "nda/cedar.txt"?'),
        ("other.pdf", 'no document "other.pdf"; correct document_id'),
    ],
)
def test_a_mistyped_document_id_gets_a_suggestion(wanted: str, meant: str) -> None:
    known = ["nda/acme.txt", "nda/cedar.txt", "policy/leave.md"]
    _, (problem,) = resolve_queries(
        [record("q", {"document_id": wanted, "quote": "x"})], lambda _: None, lambda: known
    )
    assert meant in problem


def test_overlapping_occurrences_of_a_quote_are_ambiguous() -> None:
    assert "2 times (at 1, 2)" in resolved("baaab", quote="aa")[1][0]


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])), st.data())
def test_a_slice_given_by_offsets_and_quote_always_resolves(text: str, data: Any) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    quote = {"quote": text[start:end]} if text[start:end].strip() else {}
    found = resolved(text, start=start, end=end, **quote)
    assert found == ([GoldSpan("x", start, end)], [])


def test_a_document_without_a_span_is_gold(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    lines = (
        {**GOOD, "gold_spans": [{"document_id": "nda/acme.txt"}]},
        {**GOOD, "query_id": "typo", "gold_spans": [{"document_id": "nda/acmee.txt"}]},
    )
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    texts = {"nda/acme.txt": "thirty days"}
    queries, problems = resolve_queries(read_queries(path), texts.get, lambda: texts)
    assert [(q.gold_documents, q.gold_spans) for q in queries] == [(("nda/acme.txt",), ())]
    assert len(problems) == 1 and 'did you mean "nda/acme.txt"?' in problems[0]


def test_a_deleted_gold_document_is_not_taken_for_a_mistake() -> None:
    records = [record("q", {"document_id": "a/x.md", "quote": "x"})]
    told = 'query q: gold_spans.0: "a/x.md" was deleted'
    _, problems = resolve_queries(records, lambda _: None, lambda: ["a/y.md"], before=["a/x.md"])
    assert problems == [told]
    _, problems = resolve_queries(records, lambda _: None, lambda: ["b/x.md"], before=["a/x.md"])
    assert problems == [f'{told}; did you mean "b/x.md"? If not, correct document_id']


def test_a_gold_document_in_quarantine_is_named_with_the_reason() -> None:
    span = {"document_id": "scan.pdf", "quote": "x"}
    refused = {"scan.pdf": "corrupt .pdf: cut off"}
    known = ["scan2.pdf"]
    _, (problem,) = resolve_queries([record("q", span)], lambda _: None, lambda: known, refused)
    told = '"scan.pdf" is in quarantine: corrupt .pdf: cut off; repair it and run again'
    assert problem == f"query q: gold_spans.0: {told}"
