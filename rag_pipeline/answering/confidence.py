"""The chance that retrieved passages answer a query, calibrated for each release.

A small logistic model reads how well the passages meet the whole query, with the words that name a
document. It is fitted to a release's queries with gold. Each is searched once in all documents and
once without its gold documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_pipeline.answering.reading import (
    Floats,
    Passage,
    Reader,
    cosines,
    importance,
    nearest,
    rarity,
    read_passages,
)
from rag_pipeline.datamodels import SearchResult, Weights
from rag_pipeline.models.providers.minilm import TokenIds
from rag_pipeline.search.learning import FOLDS, folds_of

EVIDENCE = ("late interaction", "worst met", "lead", "same document")
"""The inputs of the model (see `evidence`)."""
FEWEST = 20
"""Least number of queries with an answer, and of queries without, to fit a model."""
_UNSURE = 0.35
"""Chance by `DEFAULT` below which passages after the first are read too (see `read_result`).

Chosen on one half of the sample's documents.
"""
_COMPARED = 5
"""Number of best passages that each passage is compared with."""
_UNRELATED = 0.2
"""Late interaction below which a passage has nothing in common with a query, in any language."""
_UNKNOWN = 0.75
"""Share of a query, by its tokens' rarity, that is in no chunk of the index.

From this share on `_FOREIGN` replaces `_UNRELATED`. No query of the benchmarks reaches it.
"""
_FOREIGN = 0.4
_WORST = 3
_PENALTY = 10.0
"""Factor of the squared weights of standardised evidence in the loss (ridge regression)."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted model: the weight of each piece of `EVIDENCE`, and the intercept.

    Below the chance `least` the answer is that nothing answers. That is wrong for a share of
    `error` of the queries that the passages answer (split conformal prediction, Vovk et al. 2005,
    by cross-fitted chances). The other fields describe the fit: the number of queries of either
    kind, and how well cross-fitted chances tell the kinds apart.
    """

    weights: tuple[float, ...]
    intercept: float
    least: float
    error: float | None = None
    answerable: int = 0
    unanswerable: int = 0
    auc: float | None = None

    def chances(self, rows: Floats) -> Floats:
        """Return the chance, 0..1, that each row of evidence is of an answer."""
        chances = _logistic(rows @ np.array(self.weights) + self.intercept)
        found: Floats = np.where(rows[..., 0] < _UNRELATED, 0.0, chances)
        return found


DEFAULT = Calibration((6.6, 12.5, 23.1, 2.8), -9.1, 0.02)
"""For a release with too few queries: fitted to half of the documents of two data sets.

See `benchmarks.bench_calibration`.
"""


class Evidence(NamedTuple):
    """Evidence of the passages that were read, a row each; `best` is the row that meets most."""

    rows: Floats
    best: int

    @property
    def row(self) -> Floats:
        """Return the evidence of the best passage."""
        found: Floats = self.rows[self.best]
        return found


def evidence(
    query: str, read: Sequence[Passage], reader: Reader, weights: Weights | None = None
) -> Evidence:
    """Return the evidence that each passage, best first, is the answer; there must be a passage.

    `query` is the whole query: it also tells which document is meant.

    - late interaction: the mean cosine of each token of the query to the nearest token of the
      passage and its context, weighted by rarity;
    - worst met: the mean of the three lowest of these cosines;
    - lead: late interaction less its mean over the others of the first five passages;
    - same document: the share of those others that are of the passage's document.

    Without other passages the last two are 0. Late interaction is 0 if hardly a word of the query
    occurs in the index (see `_UNKNOWN`).
    """
    question = reader.question(query)
    shares = importance(question.ids, (one.ids for one in read[:_COMPARED]), weights)
    met = np.array([nearest(cosines(one.signs, question)) for one in read])
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


def read_result(
    found: SearchResult, reader: Reader, contexts: int | None = None
) -> tuple[list[Passage], Evidence | None]:
    """Read the first `contexts` chunks of a result, and all if the first hardly meet the query.

    Returns the passages and their evidence, None if no passage has words. 0 contexts are all.
    """
    contexts = found.contexts if contexts is None else contexts
    read = read_passages(found.search_text, found.chunks[: contexts or None], reader)
    known = evidence(found.query, read, reader, found.token_weights) if read else None
    if 0 < contexts < len(found.chunks) and (known is None or DEFAULT.chances(known.row) < _UNSURE):
        return read_result(found, reader, 0)
    return read, known


def passage_chances(
    found: SearchResult, reader: Reader, calibration: Calibration = DEFAULT
) -> list[float]:
    """Return each chunk's chance to be the answer; 0 for a chunk that is not read."""
    chances = [0.0] * len(found.chunks)
    read = read_passages(found.query, found.chunks, reader)
    if read:
        rows = evidence(found.query, read, reader, found.token_weights).rows
        for one, chance in zip(read, calibration.chances(rows).tolist(), strict=True):
            chances[one.rank - 1] = chance
    return chances


def fit(
    rows: Floats, answers: Sequence[bool], groups: Sequence[str], error: float
) -> Calibration | None:
    """Fit a model to the evidence of queries; None where there are too few of either kind.

    `answers` tells whether the passages of each query hold the answer. Cross-fitting keeps a group
    in one fold, such as a query with and without its gold documents. Documents are in several
    folds, because a release is asked about the documents that it has.
    """
    held = np.asarray(answers, bool)
    if held.sum() < FEWEST or (~held).sum() < FEWEST:
        return None
    folds = np.array(folds_of(groups))
    cross = np.empty(len(rows))
    for fold in range(FOLDS):
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
    """Return the highest chance that at most a share of `error` of new chances lies below.

    Of n known chances it is the floor(error (n + 1))-th lowest; 0 if that number is 0.
    """
    place = int(np.floor(error * (len(chances) + 1)))
    return float(np.sort(chances)[place - 1]) if place else 0.0


def auc(answered: Floats, others: Floats) -> float:
    """Return the area under the ROC curve (Hanley & McNeil, Radiology 1982).

    It is the share of pairs in which the query with an answer has the higher chance; ties count
    half.
    """
    wins = (answered[:, None] > others).mean() + 0.5 * (answered[:, None] == others).mean()
    return float(wins)


def _fitted(rows: Floats, held: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Floats, float]:
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
