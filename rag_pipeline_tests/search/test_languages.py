"""A query's vector without the language that it is written in."""

import numpy as np
import pytest

from rag_pipeline.search.languages import language_axes, sampled, without_axes

_GERMAN = "Die Hunde schlafen nachts im Garten und bewachen das Haus."
_ENGLISH = "The dogs sleep in the garden at night and guard the house."


def test_a_query_is_as_near_to_the_mean_of_one_language_as_to_that_of_another():
    # German texts lie around (1, 0, 0), English ones around (0, 1, 0). The third number is meaning.
    meanings = [0.2, -0.2, 0.4, -0.4, 0.0]
    vectors = np.array([[1, 0, m] for m in meanings] + [[0, 1, m] for m in meanings], np.float32)
    axes = language_axes(vectors, [_GERMAN] * 5 + [_ENGLISH] * 5)
    assert axes is not None
    assert axes.shape == (1, 3)
    query = without_axes(np.array([1.0, 0.0, 0.5], np.float32), axes)
    assert query == pytest.approx(np.array([0.5, 0.5, 0.5]))
    assert vectors @ query == pytest.approx(np.array([0.5 + 0.5 * m for m in meanings] * 2))
    assert without_axes(query, axes) == pytest.approx(query)


@pytest.mark.parametrize("texts", [[_GERMAN] * 4 + [_ENGLISH] * 6, [_GERMAN] * 10, []])
def test_a_language_of_fewer_than_five_chunks_has_no_axis(texts):
    assert language_axes(np.eye(10, dtype=np.float32)[: len(texts)], texts) is None
    query = np.array([3.0, 4.0], np.float32)
    assert without_axes(query, None) is query


def test_few_chunks_are_all_read_and_many_evenly():
    assert sampled(np.arange(3)).tolist() == [0, 1, 2]
    some = sampled(np.arange(0, 8000, 10))
    assert (len(some), some[0], some[-1]) == (400, 0, 7990)
    assert {*np.diff(some).tolist()} == {20, 30}
