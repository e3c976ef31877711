import pytest

from rag_pipeline.datamodels import Entity
from rag_pipeline.evaluation.entities.rules import extract
from rag_pipeline.evaluation.entities.scores import Counts, score_entities, summarize_entities

TRUTH = {
    "TIME": [["5 years"], ["from the date of disclosure"]],
    "CONDITION": [["termination"], ["expiration"], ["confidential"]],
}
GENERIC = (
    "Yes, confidentiality obligations often survive the termination of a contract. Many contracts "
    "include specific clauses that state confidentiality obligations will continue even after the "
    "contract has ended. The specific duration and terms can vary depending on the contract "
    "language and applicable laws."
)
WITH_CLAUSE = (
    "Yes, confidentiality obligations often survive the termination of a contract. Here are some "
    "examples:\n\n1. Confidentiality obligations with respect to trade secrets survive "
    "termination in perpetuity.\n2. The obligations of confidentiality set forth in this "
    "Agreement shall survive termination or expiration of this Agreement and shall continue for a "
    "period of five (5) years from the date of disclosure of the Confidential Information."
)


def test_the_published_example_a_generic_answer_states_two_of_five_facts():
    score = score_entities(GENERIC, extract(GENERIC), TRUTH, ("TIME", "CONDITION"))
    assert [fact for _, fact, found in score.facts if found] == ["termination", "confidential"]
    assert score.total.recall == 2 / 5
    assert score.by_type["TIME"].recall == 0
    assert score.by_type["CONDITION"].recall == 2 / 3
    assert score.critical_recall == 2 / 5


def test_the_published_example_an_answer_with_the_clause_states_five_of_five():
    score = score_entities(WITH_CLAUSE, extract(WITH_CLAUSE), TRUTH, ("TIME",))
    assert score.total.recall == 1.0
    assert score.critical_recall == 1.0
    # "in perpetuity" is the one entity of a judged type that is none of the facts
    assert (score.total.extracted, score.total.right) == (6, 5)
    assert score.total.f1 == pytest.approx(2 * (5 / 6) / (5 / 6 + 1))


def test_types_without_ground_truth_are_not_judged():
    score = score_entities(
        "Acme Rockets Inc. pays USD 5 within 30 days.",
        [Entity("TIME", "30 days"), Entity("MONEY", "USD 5"), Entity("ORGANIZATION", "Acme")],
        {"TIME": [["thirty days"]]},
    )
    assert score.total == Counts(extracted=1, right=1, facts=1, found=1)


def test_entities_of_the_same_value_count_once():
    entities = [Entity("TIME", "two years"), Entity("TIME", "24 months"), Entity("TIME", "2 days")]
    score = score_entities("two years, 24 months, 2 days", entities, {"TIME": [["2 years"]]})
    assert score.total == Counts(extracted=2, right=1, facts=1, found=1)
    assert (score.total.precision, score.total.recall) == (0.5, 1.0)


def test_no_facts_is_null_and_nothing_extracted_is_a_missed_fact():
    assert score_entities("anything", [], {}).total.f1 is None
    assert score_entities("anything", [], {}).critical_recall is None
    missed = score_entities("anything", [], {"MONEY": [["USD 5"]]}, ("TIME",)).total
    assert (missed.precision, missed.recall, missed.f1) == (None, 0.0, 0.0)
    assert score_entities("x", [], {"MONEY": [["USD 5"]]}, ("TIME",)).critical_recall is None


def test_both_ways_of_averaging_f1_are_told_apart():
    # P 1, R 1/2, F1 2/3 and P 1/4, R 1, F1 2/5
    first = score_entities(
        "USD 1", [Entity("MONEY", "USD 1")], {"MONEY": [["USD 1"], ["USD 2"]]}, ("MONEY",)
    )
    second = score_entities(
        "USD 1, USD 3, USD 4, USD 5",
        [Entity("MONEY", f"USD {n}") for n in (1, 3, 4, 5)],
        {"MONEY": [["USD 1"]]},
    )
    without_facts = score_entities("USD 1", [Entity("MONEY", "USD 1")], {})
    summary = summarize_entities([first, second, without_facts])
    assert summary["queries"] == 2
    assert summary["mean_precision"] == pytest.approx(0.625)
    assert summary["mean_recall"] == pytest.approx(0.75)
    assert summary["mean_f1"] == pytest.approx((2 / 3 + 2 / 5) / 2)
    assert summary["f1_of_means"] == pytest.approx(2 * 0.625 * 0.75 / 1.375)
    assert summary["micro"] == Counts(extracted=5, right=2, facts=3, found=2).record()
    assert summary["micro"]["f1"] == pytest.approx(2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3))
    assert summary["mean_critical_recall"] == 0.5
    assert summary["by_type"] == {"MONEY": summary["micro"]}
    assert summarize_entities([without_facts])["f1_of_means"] is None


def test_the_parts_of_a_fact_that_the_text_states_are_not_wrong_and_the_same_elsewhere_is():
    truth = {"ORGANIZATION": [["prospective lenders and investors"]]}
    inside = "Prospective lenders and investors are no party."
    score = score_entities(inside, extract(inside), truth)
    assert score.total == Counts(extracted=1, right=1, facts=1, found=1)
    besides = f"{inside} The investors and the Auditor may object."
    score = score_entities(besides, extract(besides), truth)
    assert score.total == Counts(extracted=3, right=1, facts=1, found=1)


def test_what_is_made_up_lowers_the_open_precision():
    """Of two entities one is expected; an extractor that returns nothing has no precision."""
    answer = "It lasts five years and costs USD 9,999,999."
    truth = {"TIME": [["5 years"]]}
    score = score_entities(answer, extract(answer), truth)
    assert (score.right, score.total.precision) == (1, 1.0)
    assert score.stated >= 2
    assert score_entities(answer, [], truth).stated == 0
