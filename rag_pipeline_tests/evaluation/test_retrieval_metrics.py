import math

import pytest

from rag_pipeline import GoldSpan, Query, ScoredChunk
from rag_pipeline.evaluation.retrieval_metrics import METRICS, evaluate_query


def scored(document_id, start, end):
    return ScoredChunk(f"{document_id}#{start}-{end}", document_id, start, end, "", 1.0)


QUERY = Query("q", "?", (GoldSpan("a", 10, 20), GoldSpan("b", 0, 10)))
RANKED = [
    scored("c", 0, 10),
    scored("a", 0, 20),  # answers: all of the first gold span
    scored("a", 20, 30),
    scored("b", 8, 18),  # 2 of 10: does not answer
]
RELEVANT = frozenset({"a#0-20", "b#0-8"})  # the second is not retrieved


def test_every_metric_has_its_own_name():
    assert METRICS[:14] == (
        *(f"AnswerPresence@{k}" for k in (*range(1, 11), 20)),
        *("nDCG@10", "RR@10", "AP"),
    )
    assert len(METRICS) == len(set(METRICS)) == 11 + 3 + 5 * 5 + 3 + 3 * 4 + 2 + 4 + 1
    assert tuple(evaluate_query(QUERY, RANKED, RELEVANT)) == METRICS


def test_by_hand():
    values = evaluate_query(QUERY, RANKED, RELEVANT)
    expected = {
        "AnswerPresence@1": 0.0,
        "AnswerPresence@2": 1.0,
        "AnswerPresence@20": 1.0,
        "P@1": 0.0,
        "P@3": 1 / 3,
        "P@5": 1 / 5,
        "R@1": 0.0,
        "R@3": 1 / 2,
        "R@20": 1 / 2,
        "RR@10": 1 / 2,
        "AP": (1 / 2) / 2,
        "nDCG@10": 0.6309297535714574 / (1 + 0.6309297535714574),  # 1 / log2(3)
        "SpanRecall@1": 0.0,
        "SpanRecall@3": 10 / 20,
        "SpanRecall@5": 12 / 20,
        "SpanPrecision@3": 10 / 40,
        "SpanPrecision@5": 12 / 50,
        "IoU@3": 10 / (20 + 40 - 10),
        "IoU@5": 12 / (20 + 50 - 12),
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("gold", [(), (GoldSpan("a", 5, 5),)])
def test_without_gold_text_everything_is_none(gold):
    values = evaluate_query(Query("q", "?", gold), RANKED, ())
    assert tuple(values) == METRICS
    assert set(values.values()) == {None}


def test_gold_that_no_chunk_answers():
    """The gold span is in pieces of less than half: characters are found, an answer is not."""
    query = Query("q", "?", (GoldSpan("a", 15, 27), GoldSpan("e", 0, 8)))
    values = evaluate_query(query, [scored("a", 0, 20), scored("a", 25, 50)], frozenset())
    for name, value in values.items():
        metric = name.split("@")[0]
        if metric in ("R", "nDCG", "AP", "AnswerPresence", "P", "RR", "Answerable"):
            assert value == 0.0, name
    assert values["SpanRecall@3"] == pytest.approx(7 / 20)
    assert values["SpanPrecision@3"] == pytest.approx(7 / 45)
    assert values["IoU@3"] == pytest.approx(7 / 58)


def test_a_chunking_that_cuts_up_gold_gains_nothing_by_it():
    """One of two gold spans is lost; the other one is found first, so recall is a half."""
    values = evaluate_query(QUERY, [scored("a", 0, 20)], {"a#0-20"}, lost=1)
    assert values["R@5"] == 1 / 2
    assert values["AP"] == 1 / 2
    assert values["nDCG@10"] == pytest.approx(1 / (1 + 0.6309297535714574))
    assert values["Answerable"] == 1.0


def test_a_small_chunk_answers_a_long_gold_span_but_holds_little_of_it():
    """3 of 2,000 characters answer; other text fills the budget."""
    query = Query("q", "?", (GoldSpan("a", 0, 2_000),))
    ranked = [scored("a", 500, 503), scored("b", 0, 3_000), scored("a", 0, 1_500)]
    values = evaluate_query(query, ranked, {"a#500-503", "a#0-1500"})
    assert values["AnswerPresence@1"] == 1.0
    assert values["BudgetRecall@2000"] == pytest.approx(3 / 2_000)
    assert values["BudgetRecall@4000"] == pytest.approx(997 / 2_000)  # 3 + 3,000 + 997 characters
    assert values["BudgetRecall@8000"] == pytest.approx(1_500 / 2_000)


def test_nothing_retrieved():
    values = evaluate_query(QUERY, [], RELEVANT)
    for name, value in values.items():
        expected = float(name == "Answerable" or name.startswith("DocumentMismatch"))
        assert value == (None if name.startswith("SpanPrecision") else expected), name


def test_documents_are_judged_with_and_without_spans():
    """Of the ranking c, a, a, b: a and b answer."""
    for query in (QUERY, Query("q", "?", gold_documents=("a", "b"))):
        values = evaluate_query(query, RANKED, RELEVANT if query.gold_spans else ())
        found = {name: values[name] for name in METRICS if name.startswith("Document")}
        cutoffs = (1, 3, 5, 10)
        expected = {
            "DocumentPresence": (0.0, 1.0, 1.0, 1.0),
            "DocumentMismatch": (1.0, 0.0, 0.0, 0.0),
            "DocumentRecall": (0.0, 0.5, 1.0, 1.0),
        }
        assert found.pop("DocumentAP") == (1 / 2 + 2 / 3) / 2
        gain = 1 / math.log2(3) + 1 / math.log2(4)
        assert found.pop("DocumentNDCG@10") == gain / (1 + 1 / math.log2(3))
        assert found == {
            f"{name}@{k}": value
            for name, by_cutoff in expected.items()
            for k, value in zip(cutoffs, by_cutoff, strict=True)
        }
        assert (values["AnswerPresence@5"] is None) == (not query.gold_spans)
    assert evaluate_query(Query("q", "?"), RANKED, ())["DocumentPresence@5"] is None


def test_a_grade_is_a_documents_gain():
    query = Query("q", "?", gold_documents=("a", "b", "d"), grades={"a": 2, "d": 3})
    gain = 2 / math.log2(3) + 1 / math.log2(4)
    highest = 3 + 2 / math.log2(3) + 1 / math.log2(4)
    assert evaluate_query(query, RANKED, ())["DocumentNDCG@10"] == gain / highest


def test_all_gold_needs_every_span_and_document():
    second = scored("b", 0, 10)
    found = evaluate_query(QUERY, [*RANKED, second], {*RELEVANT, second.chunk_id})
    assert [found[f"AllGold@{k}"] for k in (1, 5)] == [0.0, 1.0], "b#8-18 does not answer"
    for documents, held in ((("a", "b"), 1.0), (("a", "d"), 0.0)):
        query = Query("q", "?", gold_documents=documents)
        assert evaluate_query(query, RANKED, ())["AllGold@5"] == held
