from rag_pipeline.chunking.fixed import fixed_spans
from rag_pipeline.models.providers.minilm import load_tokenizer

WORDS = "one two three four five six seven eight nine ten"  # one token each


def pieces(text: str, tokens: int, overlap: int = 0) -> list[str]:
    return [text[start:end] for start, end in fixed_spans(text, tokens, overlap)]


def test_windows_follow_each_other() -> None:
    assert pieces(WORDS, 4) == ["one two three four", "five six seven eight", "nine ten"]


def test_windows_overlap() -> None:
    assert pieces(WORDS, 4, 1) == [
        "one two three four",
        "four five six seven",
        "seven eight nine ten",
    ]


def test_a_text_that_fits_is_one_window() -> None:
    assert pieces(WORDS, 10) == [WORDS]
    assert pieces(WORDS, 10, 9) == [WORDS]


def test_a_character_without_a_token_stays_with_the_token_before_it() -> None:
    assert pieces("\x00one two\x00 three", 2) == ["\x00one two\x00", "three"]
    assert pieces("\x00\x01", 8) == ["\x00\x01"]


def test_offsets_are_code_points() -> None:
    assert fixed_spans("😀 é 😀 é 😀 é 😀 é tail", 8, 0) == [(0, 15), (16, 20)]


def test_a_character_of_several_tokens_is_in_one_window_only() -> None:
    # A Hangul syllable is two or three tokens, all at its offset.
    text = "한글" * 8
    spans = fixed_spans(text, 8, 0)

    assert "".join(text[start:end] for start, end in spans) == text
    assert len(spans) > 1


def test_every_four_characters_of_an_endless_word_are_a_token() -> None:
    assert fixed_spans("a" * 101, 8, 0) == [(0, 32), (32, 64), (64, 96), (96, 101)]


def test_a_long_text_has_the_tokens_of_its_whole() -> None:
    text = " ".join(f"Clause {i}: unforgettable, won't-fix; 3.5%" for i in range(6_000))
    starts = [start for start, _ in load_tokenizer().encode(text, add_special_tokens=False).offsets]

    assert [start for start, _ in fixed_spans(text, 100, 0)] == starts[::100]
