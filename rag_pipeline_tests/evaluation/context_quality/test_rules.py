import numpy as np

from rag_pipeline.datamodels import Answer, Answered, Citation, GoldSpan, Query, ScoredChunk
from rag_pipeline.evaluation.context_quality.rules import (
    RuleContext,
    best_levels,
    judge_by_rules,
    key_phrases,
    was_used,
)

RATES = RuleContext()
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
    # the third has the same words as the second, which was cited
    assert [c.used for c in judged.contexts] == [False, True, False]


def test_the_best_contexts_of_a_document_of_two_chunks_by_hand():
    gold = Query("q", "?", (GoldSpan("a", 0, 100),))
    chunks = [GoldSpan("a", 0, 95), GoldSpan("a", 95, 300)]
    assert best_levels(gold, chunks, 5) == ["high", "medium", "none", "none", "none"]
