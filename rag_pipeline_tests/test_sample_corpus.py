from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

from rag_pipeline.config import DocumentsSource
from rag_pipeline.datamodels import Document, GoldSpan, Query
from rag_pipeline.loading import SourceFile, scan
from rag_pipeline.loading.queries import QueryRecord, read_queries, resolve_queries

DATA = Path(__file__).parent.parent / "data"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    root = DATA / "documents"
    loaded: dict[str, Document] = {}
    for source in scan(DocumentsSource(path=str(root)), root):
        assert isinstance(source, SourceFile), source
        loaded[source.document_id] = source.load()
    return loaded


@pytest.fixture(scope="module")
def records() -> list[QueryRecord]:
    return read_queries(DATA / "queries.jsonl")


@pytest.fixture(scope="module")
def queries(records: list[QueryRecord], documents: dict[str, Document]) -> list[Query]:
    def text_of(document_id: str) -> str | None:
        return documents[document_id].text if document_id in documents else None

    resolved, problems = resolve_queries(records, text_of)
    assert problems == []
    return resolved


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_documents_are_many_and_of_many_formats(documents: dict[str, Document]) -> None:
    formats = Counter(str(d.metadata["suffix"]) for d in documents.values())
    assert len(documents) >= 15
    assert set(formats) == {".md", ".txt", ".html", ".docx", ".pdf", ".jsonl"}
    assert sum(p.stat().st_size for p in (DATA / "documents").rglob("*")) < MEGABYTE
    assert len({d.content_hash for d in documents.values()}) == len(documents)
    assert all(d.title and len(d.text) > 400 for d in documents.values())


def test_plain_text_is_the_decoded_file(documents: dict[str, Document]) -> None:
    plain = [i for i in documents if PurePosixPath(i).suffix in (".md", ".txt")]
    for document_id in plain:
        raw = (DATA / "documents" / document_id).read_bytes()
        assert documents[document_id].text == raw.decode("utf-8")
    assert sum("\r\n" in documents[i].text for i in plain) == 1


def test_queries_are_many_and_complete(
    queries: list[Query], documents: dict[str, Document]
) -> None:
    assert len(queries) >= 55
    assert [q.query_id for q in queries] == [f"q{n:03}" for n in range(1, len(queries) + 1)]
    assert len({q.query for q in queries}) == len(queries)
    for query in queries:
        assert query.answer and query.entities and query.critical_types and query.tags
        assert set(query.critical_types) <= set(query.entities), query.query_id
        needed = {s.document_id for s in query.gold_spans}
        assert ("multi-document" in query.tags) == (len(needed) > 1), query.query_id
    assert sum("multi-document" in q.tags for q in queries) >= 5
    assert {s.document_id for q in queries for s in q.gold_spans} == set(documents)


def test_gold_is_given_by_offsets_and_by_quotes(records: list[QueryRecord]) -> None:
    spans = [s for r in records for s in r.gold_spans]
    by_quote = sum(s.quote is not None for s in spans)
    assert by_quote >= 20
    assert len(spans) - by_quote >= 15


def test_every_gold_span_is_whole_words(
    queries: list[Query], documents: dict[str, Document]
) -> None:
    def is_whole(span: GoldSpan) -> bool:
        text = documents[span.document_id].text
        quote = text[span.start : span.end]
        around = (text[span.start - 1 : span.start], text[span.end : span.end + 1])
        return len(quote) >= 15 and quote == quote.strip() and not any(map(str.isalnum, around))

    assert all(q.gold_spans for q in queries)
    assert [s for q in queries for s in q.gold_spans if not is_whole(s)] == []


def test_every_entity_stands_in_the_gold_or_the_answer(
    queries: list[Query], documents: dict[str, Document]
) -> None:
    missing: list[tuple[str, tuple[str, ...]]] = []
    for query in queries:
        gold = [documents[s.document_id].text[s.start : s.end] for s in query.gold_spans]
        said = one_line(" ".join([*gold, query.answer or ""])).casefold()
        for groups in query.entities.values():
            missing += [
                (query.query_id, group)
                for group in groups
                if not any(variant.casefold() in said for variant in group)
            ]
    assert missing == []
