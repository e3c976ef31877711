import pytest

from rag_pipeline.chunking.recursive import recursive_spans


def pieces(text: str, limit: int) -> list[str]:
    return [text[start:end] for start, end in recursive_spans(text, limit)]


def test_a_text_that_fits_is_one_piece() -> None:
    assert pieces("One.\n\nTwo.", 10) == ["One.\n\nTwo."]


def test_paragraphs_are_put_together_while_they_fit() -> None:
    assert pieces("aaaa\n\nbbbb\n\ncccc", 10) == ["aaaa\n\nbbbb", "cccc"]
    assert pieces("aaaa\n\nbbbb\n\ncccc", 9) == ["aaaa", "bbbb", "cccc"]


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\r\r", "\n\n\n\n", "\f"])
def test_blank_lines_of_every_kind_come_before_line_ends(blank: str) -> None:
    assert pieces(f"aa aa\nbb{blank}cc cc\ndd", 12) == ["aa aa\nbb", "cc cc\ndd"]


def test_a_line_end_is_no_blank_line() -> None:
    assert pieces("aa\r\nbb\r\ncc", 6) == ["aa\r\nbb", "cc"]


def test_separators_are_tried_from_large_to_small() -> None:
    text = (
        "Short one.\n\n"
        "Line one here.\nLine two here.\n\n"
        "It ends. It goes on. Then words without an end\n\n"
        "abcdefghijklmnopqrstuvwxyz"
    )
    assert pieces(text, 20) == [
        "Short one.",
        "Line one here.",
        "Line two here.",
        "It ends. It goes on.",
        "Then words without",
        "an end",
        "abcdefghijklmnopqrst",
        "uvwxyz",
    ]


def test_a_part_of_a_text_is_cut_at_offsets_of_the_whole() -> None:
    assert recursive_spans("xx aaa bbb ccc yy", 7, 3, 15) == [(3, 10), (11, 14)]


def test_nothing_is_cut_off_before_the_end_of_what_is_glued() -> None:
    text = "Title\n\nbody of words"
    assert [text[a:b] for a, b in recursive_spans(text, 12)] == ["Title", "body of", "words"]
    assert [text[a:b] for a, b in recursive_spans(text, 12, glued=7)] == [
        "Title\n\nbody",
        "of words",
    ]
