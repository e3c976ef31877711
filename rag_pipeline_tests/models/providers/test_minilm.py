import numpy as np
import pytest

from rag_pipeline.models.providers.minilm import (
    _MODEL,
    MAX_TOKENS,
    TOKENS_PER_BATCH,
    MiniLM,
    MiniLMTokens,
    load_tokenizer,
)
from rag_pipeline.models.providers.packaged import open_session, packaged_file


@pytest.fixture(scope="module")
def model():
    return MiniLM()


def test_vectors_are_unit_length_and_near_for_the_like_minded(model):
    vectors = model.embed(
        ["A man is eating food.", "A man is eating a meal.", "Interest rates rose again."]
    )
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.8
    assert vectors[0] @ vectors[2] < 0.2


def test_vectors_are_nearly_those_of_the_packaged_graph(model):
    """The packaged graph multiplies the same weights as floats."""
    session = open_session(str(packaged_file(*_MODEL)))
    texts = [
        "Is the receiving party allowed to keep a copy?",
        "Die Kündigungsfrist beträgt drei Monate.",
        "7.2 (a) USD 1,250.00 | 30 days | n/a\n" * 9,
        "word " * 300,
    ]
    for text, vector in zip(texts, model.embed(texts), strict=True):
        ids = np.array([load_tokenizer(MAX_TOKENS).encode(text).ids])
        inputs = {"attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(["last_hidden_state"], {"input_ids": ids, **inputs})
        mean = states[0].mean(axis=0)
        assert vector @ mean / np.linalg.norm(mean) > 0.9985


def test_a_vector_does_not_depend_on_its_batch(model):
    texts = [
        "short",
        "a sentence of middling length, with a comma",
        "long " * 100,
    ] * 4  # several passes
    together = model.embed(texts)
    alone = np.concatenate([model.embed([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_batches_hold_every_text_once_within_the_token_limit(model):
    texts = ["." * 300, "word", "two words"] * 40
    batches = list(model.batches(texts))
    assert sorted(i for batch in batches for i in batch) == list(range(120))
    tokenizer = load_tokenizer(MAX_TOKENS)
    for batch in batches:
        longest = max(len(tokenizer.encode(texts[i]).ids) for i in batch)
        assert longest * len(batch) <= TOKENS_PER_BATCH


def test_strange_texts_have_vectors(model):
    vectors = model.embed(["", " ", "\x00", "🙂" * 400, "ﷺ"])
    assert np.isfinite(vectors).all()


def test_tokens_have_unit_vectors_and_the_texts_vector_stays_the_same(model):
    texts = ["Interest rates rose.", "", "a much longer sentence of many more words"]
    vectors, tokens = MiniLMTokens().embed_tokens(texts)
    np.testing.assert_allclose(vectors, model.embed(texts), atol=1e-6)
    tokenizer = load_tokenizer(MAX_TOKENS)
    for text, own in zip(texts, tokens, strict=True):
        expected = tokenizer.encode(text).ids
        assert own.ids.tolist() == (expected[1:-1] or expected[:1])
        assert own.vectors.shape == (len(own.ids), 384)
        np.testing.assert_allclose(np.linalg.norm(own.vectors, axis=1), 1, atol=1e-5)


def test_a_model_that_keeps_tokens_answers_under_another_name():
    assert MiniLMTokens.identity != MiniLM.identity
