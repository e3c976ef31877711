"""Learn the weights with which a retriever ranks the relevant chunks of queries first.

The model is listwise (Cao et al., ListNet, ICML 2007). It maximizes the likelihood of the relevant
chunks under a softmax over the chunks' scores. Regularisation pulls the weights towards the
configured weights. Cross-validation chooses the strength of the regularisation.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.config import Reranker
from rag_pipeline.search.index import Floats, Positions
from rag_pipeline.search.ranking import Search, positions_of, read_rows
from rag_pipeline.search.reranking.late_interaction import MaxSimReranker
from rag_pipeline.search.retrievers.hybrid import candidate_features, neighbour_means
from rag_pipeline.search.retrievers.learned import WEIGHTS, LearnedRetriever, PartWeights

FOLDS = 5
_COMPARED = 50
"""Number of best chunks per query, by the configured weights, that the model compares."""
_TEMPERATURE = 0.1
"""Initial divisor of the scores. A fit also learns the divisor, and then discards it."""
_PULLS = (1.0, 3.0, 10.0, 30.0)
"""Strengths of the regularisation. A strength of n counts as much as n queries."""


class Example(NamedTuple):
    """The features of one query's chunks, and whether each chunk answers the query."""

    features: Floats
    """Dense, lexical and document score, shape (chunks, 3)."""
    neighbours: Floats
    """Mean features of the chunks before and after each chunk, shape (chunks, 3)."""
    late: Floats
    """MaxSim scores on the scale of the weighted sum, shape (chunks,)."""
    answers: npt.NDArray[np.bool_]


def example_of(
    search: Search, settings: LearnedRetriever, reranker: Reranker, answering: Positions
) -> Example | None:
    """Return the example of a query, or None if all or none of the compared chunks answer.

    `answering` has the positions of all chunks that answer the query.
    """
    positions, features = candidate_features(search, settings)
    means = [neighbour_means(search.index, positions, column) for column in features.T]
    ranking = settings.checked_ranking(search, _COMPARED)
    first = positions_of(ranking)
    at = np.searchsorted(positions, first)
    answers = np.isin(first, answering)
    if answers.all() or not answers.any():
        return None
    late = np.zeros(len(first))
    if isinstance(reranker, MaxSimReranker) and 0 < reranker.weight < 1:
        rows = read_rows(search.index, ranking, ("token_vectors",))
        assert rows is not None
        late = search.late_interaction(rows)
        span = max(float(late.max() - late.min()), 1e-9)
        late = reranker.weight / (1 - reranker.weight) * (late - late.min()) / span
    return Example(features[at], np.stack(means, axis=1)[at], late, answers)


def learn(
    examples: Sequence[Example], folds: Sequence[int], settings: LearnedRetriever
) -> PartWeights:
    """Return the weights that rank relevant chunks best. `folds` has the fold of each example.

    The regularisation gets the strength with the best mean reciprocal rank on left-out folds. If no
    strength ranks better than the configured weights, return the configured weights.
    """
    chosen, best = None, _reciprocal_ranks(examples, settings.weights()).sum()
    for pull in _PULLS:
        sums = 0.0
        for fold in set(folds):
            fitted = _fit(
                [e for e, f in zip(examples, folds, strict=True) if f != fold], settings, pull
            )
            left_out = [e for e, f in zip(examples, folds, strict=True) if f == fold]
            sums += _reciprocal_ranks(left_out, fitted).sum()
        if sums > best:
            chosen, best = pull, sums
    return settings.weights() if chosen is None else _fit(examples, settings, chosen)


def _fit(examples: Sequence[Example], settings: LearnedRetriever, pull: float) -> PartWeights:
    """Return the regularised maximum likelihood weights. A weight of 0 stays 0."""
    from scipy.optimize import minimize  # Searches need no scipy.

    start = _values(settings.weights())
    learned = np.flatnonzero(start > 0)
    if not examples or not len(learned):
        return settings.weights()
    first = np.append(np.log(start[learned]), np.log(_TEMPERATURE))
    found = minimize(_likelihood(examples, start, learned, pull), first, jac=True, method="BFGS").x
    weights = start.copy()
    weights[learned] = np.exp(found[:-1])
    weights[-1] = min(weights[-1], 1.0)
    return {name: round(float(w), 4) for name, w in zip(WEIGHTS, weights, strict=True)}


def _values(weights: PartWeights) -> Floats:
    return np.array([weights[name] for name in WEIGHTS])


def _reciprocal_ranks(examples: Sequence[Example], weights: PartWeights) -> Floats:
    *near, share = _values(weights)
    ranks = []
    for one in examples:
        scores = one.features @ near + share * (one.neighbours @ near) + one.late
        order = np.argsort(-scores, kind="stable")
        ranks.append(1 + int(one.answers[order].argmax()))
    return 1 / np.array(ranks, np.float64)


def folds_of(groups: Sequence[Hashable]) -> list[int]:
    """Return each query's fold. Queries of a group share a fold, and folds have similar sizes."""
    sizes = Counter(groups)
    filled = [0] * FOLDS
    fold_of: dict[Hashable, int] = {}
    for group in sorted(sizes, key=lambda g: (-sizes[g], str(g))):
        fold_of[group] = filled.index(min(filled))
        filled[fold_of[group]] += sizes[group]
    return [fold_of[group] for group in groups]


def _likelihood(
    examples: Sequence[Example], start: Floats, learned: Positions, pull: float
) -> Callable[[Floats], tuple[float, Floats]]:
    """Return the loss and its gradient as a function of the logarithms of weights and temperature.

    The loss is the mean negative log-likelihood of the relevant chunks plus the regularisation.
    """
    features, neighbours, late, answers = map(np.concatenate, zip(*examples, strict=True))
    sizes = [len(example.late) for example in examples]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    query_of = np.repeat(np.arange(len(examples)), sizes)
    pull = pull / len(examples)

    def softmax(scores: Floats) -> tuple[Floats, Floats]:
        """Return the log-sum-exp of each query's scores, and each chunk's softmax in its query."""
        highest = np.maximum.reduceat(scores, starts)
        raised = np.exp(scores - highest[query_of])
        sums = np.add.reduceat(raised, starts)
        return highest + np.log(sums), raised / sums[query_of]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights = start.copy()
        weights[learned] = np.exp(parameters[:-1])
        near, share = weights[:-1], weights[-1]
        around = neighbours @ near
        scores = (features @ near + share * around + late) / np.exp(parameters[-1])
        logs, shares = softmax(scores)
        answering_logs, answering_shares = softmax(np.where(answers, scores, -np.inf))
        value = float(np.mean(logs - answering_logs))
        slope = (shares - answering_shares) / len(starts)
        by_score = slope / np.exp(parameters[-1])
        gradient = np.append(
            near * (by_score @ (features + share * neighbours)), share * (by_score @ around)
        )[learned]
        departed = parameters[:-1] - np.log(start[learned])
        value += pull * float(departed @ departed)
        gradient = gradient + 2 * pull * departed
        return value, np.append(gradient, -(slope @ scores))

    return loss
