from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.loading.importers import import_dataset
from rag_pipeline.loading.importers.dataset import SpanNotFoundError, locate
from rag_pipeline_tests.testing.small_sets import FEE, legalbench, snippet


@pytest.mark.parametrize(
    ("text", "start", "end", "content", "expected"),
    [
        ("Zwölf Boxkämpfer", 6, 16, "Boxkämpfer", (6, 16)),
        ("Zwölf Boxkämpfer", 7, 18, "Boxkämpfer", (6, 16)),
        ("\ufeffA b", 0, 3, "A b", (1, 4)),
        ("a\r\na\r\nb", 2, 3, "a", (3, 4)),
        ("a\r\na\r\nb", 2, 5, "a\nb", (3, 7)),
        ("a\rb\r\nc", 0, 5, "a\nb\nc", (0, 6)),
        ("end", 1, 99, "nd", (1, 3)),
        ("end", -3, -1, "en", (0, 2)),
        ("end", 0, 3, None, (0, 3)),
    ],
    ids=[
        "right",
        "offsets in bytes",
        "mark not counted",
        "lines translated",
        "content translated",
        "all line ends",
        "end past the text",
        "counted from the end",
        "no content",
    ],
)
def test_locate(
    text: str, start: int, end: int, content: str | None, expected: tuple[int, int]
) -> None:
    assert locate(text, start, end, content) == expected


@pytest.mark.parametrize(
    ("start", "end", "content", "reason"),
    [
        (0, 1, "no", "its text is not in the document"),
        (2, 4, "an", "its text is not at the offsets, but at several other places"),
        (0, 0, "", "its text is empty"),
        (3, 3, None, "it is empty or outside the 6 characters"),
        (3, 7, None, "it is empty or outside the 6 characters"),
        (-2, 3, None, "it is empty or outside the 6 characters"),
    ],
)
def test_missing_spans(start: int, end: int, content: str | None, reason: str) -> None:
    with pytest.raises(SpanNotFoundError) as caught:
        locate("banana", start, end, content)
    assert str(caught.value) == reason


@given(st.text("ab\r\n", min_size=1, max_size=20), st.data())
def test_spans_counted_in_text_mode_are_found(text: str, data: st.DataObject) -> None:
    reading = text.replace("\r\n", "\n").replace("\r", "\n")
    start = data.draw(st.integers(0, len(reading) - 1))
    end = data.draw(st.integers(start + 1, len(reading)))
    found = slice(*locate(text, start, end, reading[start:end]))
    assert text[found].replace("\r\n", "\n").replace("\r", "\n") == reading[start:end]


def test_a_query_with_a_missing_span_is_skipped(tmp_path: Path) -> None:
    good, bad = snippet("cuad/fee.txt", 4, 14), snippet("cuad/fee.txt", 4, 14, "fee is 9 €")
    legalbench(tmp_path / "in", {"query": "?", "snippets": [good, bad]}, FEE)
    report = import_dataset("legalbench-rag", tmp_path / "in", tmp_path / "out")
    assert report.queries == 1
    assert report.skipped == (
        "legalbench-rag-cuad-0001: span 4-14 of 'cuad/fee.txt': its text is not in the document",
    )
