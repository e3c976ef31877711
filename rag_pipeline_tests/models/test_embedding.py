from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from rag_pipeline.calls import CallCounts, call_key
from rag_pipeline.calls.progress import listening
from rag_pipeline.config.models import Tokens
from rag_pipeline.datamodels import Vectors
from rag_pipeline.errors import ProviderError
from rag_pipeline.models import embedding
from rag_pipeline.models.embedding import embed, embed_tokens, read_signs, read_tokens
from rag_pipeline_tests.testing.dry_calls import missing_texts


class LengthEncoder:
    """Two dimensions: the cosine and sine of a text's length; counts what it is sent."""

    identity = "length"
    dimension = 2

    def __init__(self, broken: Vectors | None = None) -> None:
        self.sent: list[str] = []
        self.broken = broken

    def batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        for first in range(0, len(texts), 2):
            yield list(range(first, min(first + 2, len(texts))))

    def embed(self, texts: Sequence[str], input_type: str) -> Vectors:
        self.sent.extend(texts)
        if self.broken is not None:
            return self.broken
        angles = np.array([len(t) for t in texts], np.float32)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


class LetterEncoder(LengthEncoder):
    """A token a letter, numbered by it; of 8 dimensions the first is positive for a vowel."""

    identity = "letters"
    dimension = 8

    def embed_tokens(self, texts: Sequence[str], input_type: str) -> tuple[Vectors, list[Tokens]]:
        self.sent.extend(texts)
        tokens = []
        for text in texts:
            vectors = np.full((len(text), 8), -0.25, np.float32)
            vectors[:, 0] = [0.75 if letter in "aeiou" else -0.75 for letter in text]
            tokens.append(Tokens(np.array([ord(c) for c in text], np.uint32), vectors))
        return np.eye(len(texts), 8, dtype=np.float32), tokens


def test_tokens_come_with_the_vector_from_one_call_and_from_the_cache(cache):
    encoder, counts = LetterEncoder(), CallCounts()
    made = embed_tokens(["abe", "x"], encoder, cache, "document", counts)
    assert made.vectors.tolist() == np.eye(2, 8).tolist()
    ids, bits = read_signs(made.tokens[0], 8)
    assert (ids.tolist(), bits) == ([ord(c) for c in "abe"], b"\x80\x00\x80")
    again = embed_tokens(["x", "abe"], encoder, cache, "document", counts)
    assert again.tokens == [made.tokens[1], made.tokens[0]]
    assert embed(["abe"], encoder, cache).tolist() == [made.vectors[0].tolist()]
    assert encoder.sent == ["abe", "x"]
    assert counts == CallCounts(made=2, saved=2)


def test_a_querys_tokens_keep_their_vectors(cache):
    made = embed_tokens(["ab"], LetterEncoder(), cache, "query")
    tokens = read_tokens(made.tokens[0], 8)
    assert tokens.ids.tolist() == [ord("a"), ord("b")]
    assert tokens.vectors[:, 0].tolist() == [0.75, -0.75]
    assert read_tokens(b"", 8).vectors.shape == (0, 8)


def test_a_model_without_tokens_has_none(cache):
    assert embed_tokens(["a", "bb"], LengthEncoder(), cache).tokens == [b"", b""]


def test_nothing_is_nothing(cache):
    assert embed([], LengthEncoder(), cache).shape == (0, 2)


def test_missing_texts_counts_distinct_unknown_ones(cache):
    encoder = LengthEncoder()
    embed(["a"], encoder, cache)
    assert missing_texts(["a", "b", "b", "c"], encoder, cache) == 2


def test_progress_counts_every_text(cache):
    seen: list[int] = []
    with listening(lambda what, count: seen.append(count) if what == "texts" else None):
        embed(["a", "bb", "a", "ccc"], LengthEncoder(), cache)
    assert sum(seen) == 4


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (np.ones((1, 2), np.float32), r"expected vectors of shape \(2, 2\), got \(1, 2\)"),
        (np.ones((2, 3), np.float32), r"expected vectors of shape \(2, 2\), got \(2, 3\)"),
        (np.full((2, 2), np.nan, np.float32), "a vector is not finite"),
    ],
)
def test_a_wrong_answer_is_refused_and_not_kept(cache, broken, message):
    with pytest.raises(ProviderError, match=message):
        embed(["a", "b"], LengthEncoder(broken), cache)
    assert missing_texts(["a", "b"], LengthEncoder(), cache) == 2


def test_chunks_of_a_document_and_the_text_that_spells_them_are_different_calls() -> None:
    encoder = LengthEncoder()
    several, alone = ("a", "b"), ('["a", "b"]',)
    assert embedding._key(several, encoder, "document") != embedding._key(
        alone, encoder, "document"
    )
    # Keys of an earlier version, for what could not be mistaken.
    for texts, content in (
        (("a",), "a"),
        (several, '["a", "b"]'),
        (('["a"]',), '["a"]'),
        (('["a","b"]',), '["a","b"]'),
        (("[1, 2]",), "[1, 2]"),
    ):
        key = call_key("embed:document", encoder.identity, content)
        assert embedding._key(texts, encoder, "document") == key
