import pytest

from rag_pipeline.chunking.recursive import recursive_spans
from rag_pipeline.chunking.sizes import Limit


def pieces(text: str, limit: int, glued: int = 0) -> list[str]:
    return [text[start:end] for start, end in recursive_spans(text, Limit(limit), glued=glued)]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One.\n\nTwo.", 10, ["One.\n\nTwo."]),
        # paragraphs are put together while they fit
        ("aaaa\n\nbbbb\n\ncccc", 10, ["aaaa\n\nbbbb", "cccc"]),
        ("aaaa\n\nbbbb\n\ncccc", 9, ["aaaa", "bbbb", "cccc"]),
        # a line end is no blank line
        ("aa\r\nbb\r\ncc", 6, ["aa\r\nbb", "cc"]),
        *(
            (f"aa aa\nbb{blank}cc cc\ndd", 12, ["aa aa\nbb", "cc cc\ndd"])
            for blank in ("\n\n", "\r\n\r\n", "\n \t\n", "\r\r", "\n\n\n\n", "\f")
        ),
        (
            "Short one.\n\n"
            "Line one here.\nLine two here.\n\n"
            "It ends. It goes on. Then words without an end\n\n"
            "abcdefghijklmnopqrstuvwxyz",
            20,
            [
                "Short one.",
                "Line one here.",
                "Line two here.",
                "It ends. It goes on.",
                "Then words without",
                "an end",
                "abcdefghijklmnopqrst",
                "uvwxyz",
            ],
        ),
    ],
)
def test_separators_are_tried_from_large_to_small(text: str, limit: int, expected: list[str]):
    assert pieces(text, limit) == expected


def test_a_part_of_a_text_is_cut_at_offsets_of_the_whole() -> None:
    assert recursive_spans("xx aaa bbb ccc yy", Limit(7), 3, 15) == [(3, 10), (11, 14)]


def test_nothing_is_cut_off_before_the_end_of_what_is_glued() -> None:
    text = "Title\n\nbody of words"
    assert pieces(text, 12) == ["Title", "body of", "words"]
    assert pieces(text, 12, glued=7) == ["Title\n\nbody", "of words"]
