import numpy as np

from rag_pipeline.answering.reading import SentenceVectors


class Lengths:
    """A model whose vector is a text's length; tells which texts it was given, batch by batch."""

    identity, dimension = "lengths", 1

    def __init__(self):
        self.batched = []

    def batches(self, texts):
        yield list(reversed(range(len(texts))))

    def embed(self, texts, input_type="document"):
        self.batched.append(list(texts))
        return np.array([[len(text)] for text in texts], np.float32)


def test_each_text_is_embedded_once_and_in_its_place():
    model = Lengths()
    embed = SentenceVectors(model)
    assert embed(["aa", "b", "aa"]).tolist() == [[2], [1], [2]]
    assert embed(["b", "cccc", "aa"]).tolist() == [[1], [4], [2]]
    assert sorted(t for batch in model.batched for t in batch) == ["aa", "b", "cccc"]


def test_a_long_text_is_not_batched_with_short_ones():
    model = Lengths()
    SentenceVectors(model)(["short", "x" * 4000, "also short"])
    assert [sorted(len(t) for t in batch) for batch in model.batched] == [[5, 10], [4000]]


def test_what_was_not_used_for_longest_is_forgotten():
    model = Lengths()
    embed = SentenceVectors(model, most=2)
    for text in ("a", "bb", "a", "ccc", "a", "bb"):
        embed([text])
    assert model.batched == [["a"], ["bb"], ["ccc"], ["bb"]]
