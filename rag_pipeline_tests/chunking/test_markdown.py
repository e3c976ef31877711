import pytest

from rag_pipeline.chunking.markdown import markdown_spans
from rag_pipeline.chunking.recursive import recursive_spans
from rag_pipeline.chunking.sizes import Limit


def pieces(text: str, limit: int = 1000) -> list[str]:
    return [text[start:end] for start, end in markdown_spans(text, Limit(limit))]


@pytest.mark.parametrize(
    "sections",
    [
        [
            "Before.\n\n",
            "# One #\n\nFirst.\nMore.\n\n",
            "## Two\nSecond.\n\n",
            "Three\n=====\nThird.\n\n",
            "Four\n---\n4.",
        ],
        # a heading with nothing under it goes with the next section
        ["# Policy\n\n## Leave\n\nSixteen weeks.\n\n", "## Pay\n\nMonthly.\n\n", "# Annex\n"],
        # line ends of every kind keep the offsets
        ["# One\r\na\x00b\r\n\r\n", "# Two\r\nc\u2028# d\f# e"],
        ["# One\ra\x00b\r\r", "# Two\rc\u2028# d\f# e"],
    ],
)
def test_a_section_is_a_heading_and_what_is_under_it(sections: list[str]) -> None:
    assert pieces("".join(sections)) == [section.strip() for section in sections]


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
    assert markdown_spans(text, Limit(40)) == recursive_spans(text, Limit(40))
