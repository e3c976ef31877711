import pytest

from rag_pipeline.config import Configuration
from rag_pipeline.evaluation.stage_effects import CUTOFFS, stage_effects


def configuration(name, chunking="a", contextualizer="none", retriever="dense"):
    return Configuration(
        name=name,
        chunking=chunking,
        contextualizer=contextualizer,
        embedding="minilm",
        retriever=retriever,
        reranker="none",
    )


FOUR = [
    configuration("1", "a", "none"),
    configuration("2", "a", "structural"),
    configuration("3", "b", "none"),
    configuration("4", "b", "structural"),
]


def scores(*values):
    """Return the same values of q0, q1, … at every cutoff."""
    by_query = {f"q{i}": value for i, value in enumerate(values)}
    return {f"AnswerPresence@{k}": by_query for k in CUTOFFS}


def test_a_variant_is_the_mean_of_its_matched_configurations():
    found = stage_effects(
        FOUR,
        {"1": scores(0, 0), "2": scores(1, 0), "3": scores(0, 1), "4": scores(1, 1)},
        reference=FOUR[0],
    )
    by_stage = {effect.stage: effect for effect in found}
    assert set(by_stage) == {"chunking", "contextualizer"}
    effect = by_stage["contextualizer"]
    assert (effect.reference, effect.matched, effect.left_out) == ("none", 2, ())
    # none: (0 + 0) / 2 and (0 + 1) / 2; structural: (1 + 1) / 2 and (0 + 1) / 2.
    assert effect.curves["none"][5].mean == pytest.approx(0.25)
    assert effect.curves["structural"][5].mean == pytest.approx(0.75)
    assert effect.comparisons["structural"].mean == pytest.approx(0.5)
    assert effect.comparisons["structural"].n == 2


def test_what_differs_in_two_stages_is_not_compared():
    two = [configuration("1", "a", retriever="dense"), configuration("2", "b", retriever="hybrid")]
    assert stage_effects(two, {"1": scores(0), "2": scores(1)}) == []


def test_variants_without_a_match_are_named_and_left_out():
    some = [*FOUR, configuration("5", "c", "other")]
    found = stage_effects(some, {c.name: scores(1, 0) for c in some})
    chunking = next(effect for effect in found if effect.stage == "chunking")
    assert list(chunking.curves) == ["a", "b"]
    assert (chunking.matched, chunking.left_out) == (2, ("c",))


def test_the_reference_leads_and_what_is_not_evaluated_is_ignored():
    some = [configuration("1", "a"), configuration("2", "b"), configuration("3", "c")]
    (effect,) = stage_effects(some, {"1": scores(1), "2": scores(0)}, reference=some[1])
    assert effect.reference == "b"
    assert list(effect.curves) == ["b", "a"]


def test_a_query_that_one_matched_configuration_misses_is_missing():
    values = {"1": scores(0, 0), "2": scores(1, 0), "3": scores(None, 1), "4": scores(1, 1)}
    effect = next(e for e in stage_effects(FOUR, values) if e.stage == "contextualizer")
    assert (effect.curves["none"][1].n, effect.curves["none"][1].missing) == (1, 1)
    assert (effect.comparisons["structural"].n, effect.comparisons["structural"].missing) == (1, 1)
