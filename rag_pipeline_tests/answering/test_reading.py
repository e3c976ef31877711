import numpy as np

from rag_pipeline.answering.reading import SentenceVectors, written_in


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


def test_the_memory_is_emptied_when_it_is_full():
    model = Lengths()
    embed = SentenceVectors(model, most=2)
    for text in ("a", "bb", "a", "ccc", "bb"):
        assert embed([text]).tolist() == [[len(text)]]
    assert model.batched == [["a"], ["bb"], ["a"], ["ccc"], ["bb"]]


def test_vectors_are_kept_in_a_call_cache_for_the_next_run(cache):
    first, second = Lengths(), Lengths()
    one, other = SentenceVectors(first), SentenceVectors(second)
    with one.kept_in(cache):
        assert one(["aa", "b"]).tolist() == [[2], [1]]
    one(["dddd"])
    with other.kept_in(cache):
        assert other(["b", "ccc", "aa"]).tolist() == [[1], [3], [2]]
    assert second.batched == [["ccc"]]
    assert len(cache) == 3


def test_the_rows_of_a_table_tell_no_language():
    head = "| House | Flats | Rent per month | Heating | Caretaker |"
    rows = "| Ahornweg 3 | 12 | 8400 | Fernwärme | Kuhn |\n| Ulmenstrasse 9 | 6 | 43 | Gas | Voss |"
    assert written_in(f"{head}\n{rows}") == "en"
    assert written_in("Die Halle ist kalt und leer. The hall is cold and empty.") == ""
