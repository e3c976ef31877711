import numpy as np
import pytest
from scipy.optimize import check_grad

from rag_pipeline.search import learning
from rag_pipeline.search.learning import Example, folds_of, learn
from rag_pipeline.search.retrievers.learned import LearnedRetriever

SETTINGS = LearnedRetriever(
    method="learned", dense_weight=0.6, lexical_weight=0.4, neighbour_weight=0.1
)


def examples(count, answering, seed=1):
    """Return questions of 20 chunks; `answering` returns the row of the answering chunk."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        features = np.column_stack([chance.random((20, 2)), np.zeros(20)])
        answers = np.zeros(20, np.bool_)
        answers[answering(features)] = True
        made.append(Example(features, features[::-1] / 2, np.zeros(20), answers))
    return made


def by_terms(features):
    return int((features[:, 1] + 0.1 * features[:, 0]).argmax())


def test_what_tells_the_answers_apart_gains_weight():
    made = examples(60, by_terms)
    weights = learn(made, [n % 5 for n in range(60)], SETTINGS)
    assert weights["lexical_weight"] / weights["dense_weight"] > 2
    # the document's score is not looked at
    assert weights["document_weight"] == 0
    others = examples(60, by_terms, seed=2)
    given = learning._reciprocal_ranks(others, SETTINGS.weights()).mean()
    assert learning._reciprocal_ranks(others, weights).mean() > given + 0.2


def test_weights_that_nothing_betters_stay_as_they_are():
    chance = np.random.default_rng(3)
    made = examples(60, lambda features: int(chance.integers(20)))
    ideal = SETTINGS.model_copy(update={"neighbour_weight": 0.0})
    right = examples(60, lambda features: int((features @ (0.6, 0.4, 0.0)).argmax()))
    folds = [n % 5 for n in range(60)]
    assert learn(right, folds, ideal) == ideal.weights()
    for name, weight in learn(made, folds, SETTINGS).items():
        assert weight == pytest.approx(SETTINGS.weights()[name], rel=2.0)


def test_the_likelihood_s_gradient_is_its_slope():
    start = np.array([0.6, 0.4, 0.0, 0.1])
    model = learning._likelihood(examples(30, by_terms), start, np.array([0, 1, 3]), pull=3.0)
    at = np.array([-0.2, 0.3, -1.0, -0.5])
    assert check_grad(lambda x: model(x)[0], lambda x: model(x)[1], at) < 1e-5


def test_questions_of_one_group_share_a_fold_and_folds_are_of_like_size():
    groups = ["big"] * 10 + [f"g{n}" for n in range(40)]
    folds = folds_of(groups)
    assert len(set(folds[:10])) == 1
    assert sorted(folds.count(fold) for fold in range(5)) == [10] * 5
