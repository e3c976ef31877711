from typing import Any

import numpy as np
import pytest

from rag_pipeline.datamodels import Answer, Answered, Citation, GoldSpan, Query, ScoredChunk
from rag_pipeline.evaluation.context_quality import (
    CONTEXT_METRICS,
    ContextJudgement,
    Judged,
    context_metrics,
    context_precision,
    context_relevance,
    judge_by_rules,
    key_phrases,
    ranking_penalty,
    was_used,
)
from rag_pipeline.evaluation.context_quality.llm import ChatContext
from rag_pipeline.evaluation.context_quality.rules import RuleContext

RATES = RuleContext()


def contexts(levels: str, used: str = "") -> tuple[Judged, ...]:
    """Return contexts from letters: h, m, l, n; used are the places in `used`, from 1."""
    names: dict[str, Any] = {"h": "high", "m": "medium", "l": "low", "n": "none"}
    return tuple(
        Judged(names[letter], str(place) in used) for place, letter in enumerate(levels, 1)
    )


@pytest.mark.parametrize(
    ("levels", "used", "missing", "expected"),
    [
        ("hhh", "123", 0, 1.0),
        ("hmln", "1", 0, 2.0 / 4),  # 1 + 0.7 + 0.3 + 0
        ("hmln", "", 0, 2.0 / 4 - 0.1),
        ("hh", "", 0, 1.0 - 0.2),
        ("mm", "", 0, 0.7),  # only high ones are held to be used
        ("hh", "12", 2, 1.0 - 0.3),
        ("hh", "12", 3, 1.0 - 0.45),
        ("hh", "12", 4, 1.0 - 0.5),  # 0.6 is capped
        ("hh", "12", 99, 0.5),
        ("ln", "", 1, 0.0),  # 0.15 - 0.15
        ("nn", "", 1, 0.0),  # never below
    ],
)
def test_context_relevance(levels, used, missing, expected):
    judgement = ContextJudgement(contexts(levels, used), ("item",) * missing)
    assert context_relevance(judgement, RATES) == pytest.approx(expected)


def test_the_rates_and_the_scale_are_settings():
    rates = RuleContext(medium=0.5, low=0.1, unused_penalty=0.2, missing_penalty=0.05, scale=10.0)
    judgement = ContextJudgement(contexts("hml"), ("a", "b"))
    # (1 + 0.5 + 0.1) / 3 - 0.2 - 0.1
    assert context_relevance(judgement, rates) == pytest.approx(10 * (1.6 / 3 - 0.3))


def test_no_context_is_null_and_not_one():
    metrics = context_metrics(ContextJudgement((), ("an answer",)), RATES)
    assert metrics == {metric.name: None for metric in CONTEXT_METRICS}


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("hmm", 1.0),
        ("nh", 1 / 2),
        ("hnm", (1 + 2 / 3) / 2),
        ("nnhlm", (1 / 3 + 2 / 5) / 2),
        ("lln", 0.0),
    ],
)
def test_context_precision_is_average_precision_over_high_and_medium(levels, expected):
    assert context_precision(contexts(levels)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("hhh", 0.0),
        ("nnnh", 0.05),
        ("nnnhh", 0.05 + 0.10),
        ("nnnmm", 0.0),  # medium ones may stand anywhere
        ("nnnhhhh", 0.3),  # 0.05 + 0.10 + 0.15 + 0.20 is capped
    ],
)
def test_ranking_penalty(levels, expected):
    assert ranking_penalty(contexts(levels), RATES) == pytest.approx(expected)


def test_the_counts():
    metrics = context_metrics(ContextJudgement(contexts("hmln", "14"), ("a", "b")), RATES)
    assert (metrics["UsageRate"], metrics["MissingItems"], metrics["RelevantCount"]) == (0.5, 2, 2)


# --- judging by rules ---

TEXT = "Alpha pays a late charge of five percent. Bravo keeps two spare keys. Charlie may leave."


def chunk(start: int, end: int, document_id: str = "d") -> ScoredChunk:
    return ScoredChunk(f"{document_id}#{start}-{end}", document_id, start, end, TEXT[start:end], 1)


def said(text: str, *chunks: ScoredChunk) -> Answer:
    citations = [Citation(1, c.chunk_id, c.document_id, c.start, c.end, c.text) for c in chunks]
    return Answer(text, True, tuple(citations))


def refuse(texts):
    raise AssertionError("gold needs no model")


def test_levels_and_missing_items_follow_the_gold_spans():
    # gold 0-40: half of a chunk inside is an answer, less a share of its text, none its document
    query = Query("q", "?", (GoldSpan("d", 0, 40), GoldSpan("e", 0, 10)))
    chunks = [chunk(0, 40), chunk(30, 80), chunk(45, 80), chunk(45, 80, "other")]
    (judged,) = judge_by_rules([Answered(query, chunks, said("x"))], RATES, refuse)
    assert [c.level for c in judged.contexts] == ["high", "medium", "low", "none"]
    assert judged.missing == ("e#0-10",)


def test_without_gold_levels_follow_the_nearest_sentence():
    query = Query("q", "What is charged?")
    cosines = {"one.": 0.61, "two.": 0.46, "three.": 0.31, "four.": 0.2}
    vectors = {"What is charged?": (1.0, 0.0)} | {
        t: (c, (1 - c * c) ** 0.5) for t, c in cosines.items()
    }
    chunks = [ScoredChunk(t, "d", 0, 9, t, 1) for t in cosines]
    chunks.append(ScoredChunk("both", "d", 0, 9, "four. Two.".replace("Two", "two"), 1))

    def embed(texts):
        return np.array([vectors[text] for text in texts])

    (judged,) = judge_by_rules([Answered(query, chunks[:4], said("x"))], RATES, embed)
    assert [c.level for c in judged.contexts] == ["high", "medium", "low", "none"]
    assert judged.missing == ()
    nothing = Answer("Nothing.", answered=False)
    (unanswered,) = judge_by_rules([Answered(query, chunks[:4], nothing)], RATES, embed)
    assert unanswered.missing == ("an answer",)
    assert not any(c.used for c in unanswered.contexts)


def test_without_gold_missing_are_the_facts_that_no_context_states():
    query = Query("q", "?", entities={"PERCENTAGE": (("5%",), ("7%",))})
    answered = Answered(query, [chunk(0, 41)], said("x"))
    (judged,) = judge_by_rules([answered], RATES, lambda ts: np.ones((len(ts), 1), np.float32))
    assert judged.missing == ("PERCENTAGE: 7%",)


def test_key_phrases_are_runs_of_content_words_and_numbers():
    found = key_phrases("The late charge is 5.5 of the base rent, see clause 12.")
    assert {"late charge", "base rent", "5.5"} <= found
    assert not any(phrase.startswith("the ") for phrase in found)
    assert all(1 <= len(phrase.split()) <= 4 for phrase in found)


def test_one_phrase_tells_that_a_high_context_was_used_two_that_another_was():
    phrases = frozenset({"late charge", "spare keys"})
    assert was_used(phrases, "A Late Charge applies.", "high")
    assert not was_used(phrases, "A late charge applies.", "medium")
    assert was_used(phrases, "A late charge, spare keys.", "low")
    assert not was_used(phrases, "A late charge, spare keys.", "none")
    assert not was_used(phrases, "A late charger.", "high")


def test_a_cited_context_is_used_and_shared_phrases_tell_nothing():
    query = Query("q", "How many spare keys?", (GoldSpan("d", 0, 88),))
    chunks = [chunk(0, 41), chunk(42, 69), chunk(42, 88)]
    answered = Answered(query, chunks, said("Bravo keeps two spare keys", chunks[1]))
    (judged,) = judge_by_rules([answered], RATES, refuse)
    # the third holds the same words as the second, which is the one that was cited
    assert [c.used for c in judged.contexts] == [False, True, False]


def test_levels_that_do_not_descend_are_refused():
    with pytest.raises(ValueError, match="must descend"):
        ChatContext(judge="llm", chat="x", medium=0.2, low=0.3)
