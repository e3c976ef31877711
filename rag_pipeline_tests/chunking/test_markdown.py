import pytest

from rag_pipeline.chunking.markdown import markdown_spans
from rag_pipeline.chunking.recursive import recursive_spans


def pieces(text: str, limit: int = 1000) -> list[str]:
    return [text[start:end] for start, end in markdown_spans(text, limit)]


def test_a_section_is_a_heading_and_what_is_under_it() -> None:
    text = (
        "Before.\n\n# One #\n\nFirst.\nMore.\n\n## Two\nSecond.\n\n"
        "Three\n=====\nThird.\n\nFour\n---\n4."
    )
    assert pieces(text) == [
        "Before.",
        "# One #\n\nFirst.\nMore.",
        "## Two\nSecond.",
        "Three\n=====\nThird.",
        "Four\n---\n4.",
    ]


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_of_every_kind_keep_the_offsets(newline: str) -> None:
    text = newline.join(["# One", "a\x00b", "", "# Two", "c\u2028# d\f# e"])
    assert pieces(text) == [
        newline.join(["# One", "a\x00b"]),
        newline.join(["# Two", "c\u2028# d\f# e"]),
    ]


@pytest.mark.parametrize(
    "no_heading",
    [
        "```\n# comment\n```",
        "~~~~\n# a\n~~~\n# b\n~~~~",
        "    # code",
        "> # quoted",
        "- # listed",
        "<!--\n# hidden\n-->",
        "\\# escaped",
        "####### seven",
        "#tag",
    ],
)
def test_what_looks_like_a_heading(no_heading: str) -> None:
    text = f"# Real\n\ntext\n\n{no_heading}\n\nmore\n\n# Next\n\nend"
    assert pieces(text) == [f"# Real\n\ntext\n\n{no_heading}\n\nmore", "# Next\n\nend"]


def test_a_heading_with_nothing_under_it_goes_with_the_next_section() -> None:
    text = "# Policy\n\n## Leave\n\nSixteen weeks.\n\n## Pay\n\nMonthly.\n\n# Annex\n"
    assert pieces(text) == [
        "# Policy\n\n## Leave\n\nSixteen weeks.",
        "## Pay\n\nMonthly.",
        "# Annex",
    ]


def test_a_long_section_is_cut_and_its_heading_stays_with_text() -> None:
    text = "# Leave\n\nParents have sixteen weeks off.\n\nOthers have five.\n\n# Pay\n\nMonthly."
    assert pieces(text, 32) == [
        "# Leave\n\nParents have sixteen",
        "weeks off.",
        "Others have five.",
        "# Pay\n\nMonthly.",
    ]


def test_text_without_headings_is_cut_as_recursive_does() -> None:
    text = "Some words. And more of them.\n\nA paragraph\nof lines.\n\n" * 5
    assert markdown_spans(text, 40) == recursive_spans(text, 40)
