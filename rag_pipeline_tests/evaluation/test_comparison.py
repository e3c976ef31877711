"""The choice among configurations that a metric cannot tell apart."""

from rag_pipeline.evaluation.comparison import best_of


def scores(**hits):
    """Return 40 queries, of which each metric is 1 on the first so many."""
    return {m: {f"q{n}": float(n < many) for n in range(40)} for m, many in hits.items()}


def test_the_next_metrics_choose_where_the_first_cannot_tell():
    # `late` is 12 queries behind at 5, which no chance explains; `near` is one behind.
    made = {
        "first": scores(five=32, one=12, f1=20),
        "near": scores(five=31, one=28, f1=21),
        "late": scores(five=20, one=40, f1=40),
    }
    assert best_of(made, ["five", "one", "f1"]) == ("near", ["five", "one"])


def test_a_metric_that_can_tell_decides_alone():
    made = {"good": scores(five=36, one=1), "bad": scores(five=10, one=36)}
    assert best_of(made, ["five", "one"]) == ("good", ["five"])


def test_where_none_can_tell_the_first_is_taken_and_after_a_worse_one_the_highest_mean():
    made = {"a": scores(five=31, one=20, f1=20), "b": scores(five=30, one=22, f1=21)}
    assert best_of(made, ["five", "one", "f1"]) == ("a", [])
    worse = {"late": scores(five=1, one=40, f1=40)}
    assert best_of(worse | made, ["five", "one", "f1"]) == ("b", ["five", "one", "f1"])
    assert best_of({"only": scores(five=1)}, ["five"]) == ("only", [])
