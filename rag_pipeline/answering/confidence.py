"""How surely retrieved passages answer a question: a chance, calibrated for each release.

A small logistic model reads how well the passages meet the whole question, the words that name a
document included. It is fitted to a release's own questions: those whose answer is found, and the
same ones asked of the documents without the ones that answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_pipeline.answering.interaction import Floats, cosines, importance, nearest, rarity
from rag_pipeline.answering.sentences import Reader, ReadPassage, read_passages
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.models.providers.minilm import TokenIds
from rag_pipeline.search.reranking import Weights

EVIDENCE = ("late interaction", "worst met", "lead", "same document")
"""What the chance is worked out from (see `evidence`)."""
FEWEST = 20
"""Number of questions with an answer, and of those without, from which a model is fitted."""
_UNSURE = 0.35
"""Chance by `DEFAULT` below which the passages after the first are read too (see `read_asked`).

Chosen on one half of the sample's documents.
"""
_COMPARED = 5
"""Number of passages, the best ones, that each passage is compared with."""
_UNRELATED = 0.2
"""Late interaction below which a passage has nothing in common with a question, in any language."""
_UNKNOWN = 0.75
"""Least share of a question, by its tokens' rarity, that occurs nowhere in the index for `_FOREIGN`
to stand for `_UNRELATED`; no question of the benchmarks has so much.
"""
_FOREIGN = 0.4
_WORST = 3
_PENALTY = 10.0
"""Factor of the squared weights of standardised evidence in the loss (ridge regression)."""
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted model: the weight of each piece of `EVIDENCE`, and the intercept.

    `least` is the chance below which it is said that nothing answers. It is chosen so that this is
    wrong for a share of `error` of the questions that the passages answer (split conformal
    prediction, Vovk et al. 2005, by cross-fitted chances). The rest says what it was fitted to:
    how many questions of either kind, and how well cross-fitted chances tell these apart.
    """

    weights: tuple[float, ...]
    intercept: float
    least: float
    error: float | None = None
    answerable: int = 0
    unanswerable: int = 0
    auc: float | None = None

    def chances(self, rows: Floats) -> Floats:
        """Return the chance, 0..1, that each row of evidence stands for an answer."""
        chances = _logistic(rows @ np.array(self.weights) + self.intercept)
        found: Floats = np.where(rows[..., 0] < _UNRELATED, 0.0, chances)
        return found


DEFAULT = Calibration((6.6, 12.5, 23.1, 2.8), -9.1, 0.02)
"""For a release with too few questions: fitted to half of the documents of two data sets.

See `benchmarks.bench_calibration`.
"""


class Evidence(NamedTuple):
    """Evidence of the passages that were read, a row each; `best` is the one that meets most."""

    rows: Floats
    best: int

    @property
    def row(self) -> Floats:
        """Return the evidence that an answer is judged by."""
        found: Floats = self.rows[self.best]
        return found


def evidence(
    query: str, read: Sequence[ReadPassage], reader: Reader, weights: Weights | None = None
) -> Evidence:
    """Return what speaks for each passage, best first, being the answer; there must be one.

    `query` is the whole question: a document that lacks the words that name one is another.

    - late interaction: the mean, weighted by the tokens' rarity, of the cosine of each token of
      the question to the nearest of the passage and its context;
    - worst met: the mean of the three lowest of these cosines;
    - lead: late interaction less its mean over the other ones of the first five passages;
    - same document: the share of those others that are of the passage's document.

    Where there are no others both are 0. Late interaction is 0 where hardly a word of the question
    occurs in the index (see `_UNKNOWN`).
    """
    question = reader.question(query)
    shares = importance(question.ids, (one.tokens.ids for one in read[:_COMPARED]), weights)
    met = np.array([nearest(cosines(one.tokens.whole, question)) for one in read])
    late = met @ shares
    if _is_unknown(question.ids, weights):
        late[late < _FOREIGN] = 0.0
    worst = np.sort(met, axis=1)[:, :_WORST].mean(axis=1)
    numbers = np.arange(len(read))
    documents = np.array([one.chunk.document_id for one in read])
    rows = np.zeros((len(read), len(EVIDENCE)))
    rows[:, 0], rows[:, 1] = late, worst
    for n in numbers:
        others = (numbers < _COMPARED) & (numbers != n)
        if others.any():
            rows[n, 2] = late[n] - late[others].mean()
            rows[n, 3] = (documents[others] == documents[n]).mean()
    return Evidence(rows, int(late.argmax()))


def _is_unknown(ids: TokenIds, weights: Weights | None) -> bool:
    if weights is None:
        return False
    own = rarity(ids, weights)
    return bool(own[own >= weights.max()].sum() >= _UNKNOWN * own.sum())


def read_asked(
    ask: str,
    query: str,
    chunks: Sequence[ScoredChunk],
    first: int,
    reader: Reader,
    weights: Weights | None = None,
) -> tuple[list[ReadPassage], Evidence | None]:
    """Read a question's first chunks, and all of them where these hardly meet it (0: at once).

    Returns what was read with its evidence, None where there are no words to read.
    """
    read = read_passages(ask, chunks[: first or None], reader)
    found = evidence(query, read, reader, weights) if read else None
    if 0 < first < len(chunks) and (found is None or DEFAULT.chances(found.row) < _UNSURE):
        return read_asked(ask, query, chunks, 0, reader, weights)
    return read, found


def passage_chances(
    query: str,
    chunks: Sequence[ScoredChunk],
    reader: Reader,
    weights: Weights | None = None,
    calibration: Calibration = DEFAULT,
) -> list[float]:
    """Return each chunk's chance of being the answer; 0 for one that is not read."""
    chances = [0.0] * len(chunks)
    read = read_passages(query, chunks, reader)
    if read:
        found = calibration.chances(evidence(query, read, reader, weights).rows)
        for one, chance in zip(read, found.tolist(), strict=True):
            chances[one.rank - 1] = chance
    return chances


def fit(
    rows: Floats, answers: Sequence[bool], groups: Sequence[str], error: float
) -> Calibration | None:
    """Fit a model to the evidence of questions; None where there are too few of either kind.

    `answers` tells of which questions the passages hold the answer. What is of one group, such as
    a question with and without its gold documents, is kept in one fold when chances are
    cross-fitted. Not by documents: a release is asked about those that it has.
    """
    held = np.asarray(answers, bool)
    if held.sum() < FEWEST or (~held).sum() < FEWEST:
        return None
    folds = _folds(groups)
    cross = np.empty(len(rows))
    for fold in range(_FOLDS):
        tested = folds == fold
        if tested.any():
            weights, intercept = _fitted(rows[~tested], held[~tested])
            cross[tested] = _logistic(rows[tested] @ weights + intercept)
    weights, intercept = _fitted(rows, held)
    return Calibration(
        tuple(weights.tolist()),
        intercept,
        threshold(cross[held], error),
        error,
        int(held.sum()),
        int((~held).sum()),
        auc(cross[held], cross[~held]),
    )


def threshold(chances: Floats, error: float) -> float:
    """Return the highest chance that at most a share of `error` of new ones lies below.

    Of n known chances it is the floor(error (n + 1))-th lowest, 0 where that is before the first.
    """
    place = int(np.floor(error * (len(chances) + 1)))
    return float(np.sort(chances)[place - 1]) if place else 0.0


def auc(answered: Floats, others: Floats) -> float:
    """Return how often a question with an answer has a higher chance than one without (ties half).

    The area under the ROC curve; Hanley & McNeil, Radiology 1982.
    """
    wins = (answered[:, None] > others).mean() + 0.5 * (answered[:, None] == others).mean()
    return float(wins)


def _folds(groups: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Deal groups out to folds, the largest first, each to the fold that has the fewest so far."""
    names, of_group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    fold_of = np.empty(len(names), np.int64)
    filled = np.zeros(_FOLDS, np.int64)
    for group in np.argsort(-sizes, kind="stable"):
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += sizes[group]
    return fold_of[of_group]


def _fitted(rows: Floats, held: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Floats, float]:
    """Return the weights and the intercept of a ridge logistic regression (Newton's method)."""
    mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    inputs = np.c_[(rows - mean) / scale, np.ones(len(rows))]
    penalty = np.diag([_PENALTY] * rows.shape[1] + [1e-6])
    found = np.zeros(inputs.shape[1])
    for _ in range(30):
        chance = _logistic(inputs @ found)
        gradient = inputs.T @ (chance - held) + penalty @ found
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + penalty
        found -= np.linalg.solve(curve, gradient)
    weights = found[:-1] / scale
    return weights, float(found[-1] - weights @ mean)


def _logistic(values: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return found
