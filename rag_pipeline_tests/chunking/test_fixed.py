import pytest

from rag_pipeline.chunking.fixed import fixed_spans
from rag_pipeline.config.models import packaged_embedding
from rag_pipeline.models.providers.minilm import load_tokenizer

WORDS = "one two three four five six seven eight nine ten"  # one token each
HANGUL = "한글" * 8
"""A syllable is two or three tokens, all at its offset."""


def spans(text: str, tokens: int, overlap: int = 0) -> list[tuple[int, int]]:
    return fixed_spans(text, tokens, overlap, packaged_embedding().token_starts(text))


@pytest.mark.parametrize(
    ("text", "tokens", "overlap", "pieces"),
    [
        (WORDS, 4, 0, ["one two three four", "five six seven eight", "nine ten"]),
        (WORDS, 4, 1, ["one two three four", "four five six seven", "seven eight nine ten"]),
        (WORDS, 10, 0, [WORDS]),
        (WORDS, 10, 9, [WORDS]),
        # a character without a token stays with the token before it
        ("\x00one two\x00 three", 2, 0, ["\x00one two\x00", "three"]),
        ("\x00\x01", 8, 0, ["\x00\x01"]),
        # offsets are code points
        ("😀 é 😀 é 😀 é 😀 é tail", 8, 0, ["😀 é 😀 é 😀 é 😀 é", "tail"]),
        # every four characters of an endless word are a token
        ("a" * 101, 8, 0, ["a" * 32, "a" * 32, "a" * 32, "a" * 5]),
    ],
)
def test_windows_of_tokens(text: str, tokens: int, overlap: int, pieces: list[str]) -> None:
    assert [text[start:end] for start, end in spans(text, tokens, overlap)] == pieces


def test_a_character_of_several_tokens_is_in_one_window_only() -> None:
    found = spans(HANGUL, 8)
    assert "".join(HANGUL[start:end] for start, end in found) == HANGUL
    assert len(found) > 1


def test_a_long_text_has_the_tokens_of_its_whole() -> None:
    text = " ".join(f"Clause {i}: unforgettable, won't-fix; 3.5%" for i in range(6_000))
    starts = [start for start, _ in load_tokenizer().encode(text, add_special_tokens=False).offsets]
    assert [start for start, _ in spans(text, 100)] == starts[::100]
