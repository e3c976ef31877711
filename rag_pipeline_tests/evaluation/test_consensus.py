"""A judge that reads no gold: right passages of like questions say alike things."""

import pytest

from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.evaluation.consensus import first_answers


def passage(document_id: str, text: str, score: float = 0.5) -> ScoredChunk:
    return ScoredChunk(f"{document_id}#{text}", document_id, 0, len(text), text, score)


NOTICE = "either party may give thirty days notice"
RANKED = {
    "a": [passage("a", NOTICE), passage("a", "the seat is in Bonn")],
    "b": [passage("b", f"{NOTICE} in writing"), passage("b", "fees are due in May")],
    "c": [passage("c", f"upon default {NOTICE}"), passage("c", "the term is a year")],
    # Found the wrong passage first.
    "d": [passage("d", "the hotel serves breakfast"), passage("d", f"{NOTICE} by post")],
    "alone": [passage("e", "tea is at five"), passage("e", NOTICE)],
    # Similar queries, but about one document.
    "again": [passage("f", "tea is at five"), passage("f", "fees are due")],
    "same": [passage("f", "tea is at five"), passage("f", "fees are due")],
}
ASKS = dict.fromkeys("abcd", "how long is the notice")
ASKS |= {"alone": "who pays for lunch", "again": "where is the seat", "same": "where is the seat"}


def test_a_first_passage_is_believed_as_far_as_like_questions_found_alike_ones():
    judged = first_answers(RANKED, ASKS, str.split)
    assert set(judged) == set("abcd"), "nobody asks the like of another document"
    assert min(judged[q] for q in "abc") > 0.9
    assert judged["d"] < 0.1


def test_of_passages_that_are_equally_near_the_score_tells():
    """The lead of a first passage is the unit: exp(1) to 1 where it is as great as the mean."""
    ranked = {
        q: [passage(q, "one two", 0.6), passage(q, "two one", 0.4)] for q in ("a", "b", "c")
    } | {"d": [passage("d", "three four")] * 2}
    asks = dict.fromkeys(ranked, "how long")
    judged = first_answers(ranked, asks, str.split)
    # Three leads of 0.2 and one of 0 have the mean 0.15.
    assert judged["a"] == pytest.approx(1 / (1 + 2.718281828 ** (-0.2 / 0.15)))


def test_a_question_without_passages_or_with_one_is_not_judged():
    ranked = {"a": [], "b": RANKED["b"][:1], "c": RANKED["c"]}
    assert first_answers(ranked, dict.fromkeys(ranked, "how long"), str.split) == {}
    assert first_answers({}, {}, str.split) == {}
