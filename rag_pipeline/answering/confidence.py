"""Estimate the probability that retrieved passages answer a query, calibrated for each release.

A logistic model estimates the probability from the match between the passages and the whole query.
It is fitted to people's queries that have gold spans. Each of these queries is searched twice: in
all documents, and in all but its gold documents. If there are few such queries, two other sets of
questions place the model (see `placed`). Rules make the first set from the documents. The second
set has general questions, which the documents do not answer.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_pipeline.answering.agreement import Agreed, ranked_sentences
from rag_pipeline.answering.naming import lacks_year, unheld_names
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
from rag_pipeline.config.calibration import DEFAULT, EVIDENCE, SENTENCE, Calibration, logistic
from rag_pipeline.datamodels import ScoredChunk, SearchResult, Weights
from rag_pipeline.models.providers.minilm import TokenIds
from rag_pipeline.search.learning import FOLDS, folds_of

FEWEST = 20
"""Least number of queries with an answer, and of queries without an answer, to fit a model."""
_FEWEST_MADE = 20
"""Least number of made questions that place a model (see `placed`).

The lowest scores of fewer questions are too uncertain.
"""
_SCORE = np.array([8.5, 0.0, 3.4, 0.0, -12.0, 0.0])
"""The weight of each input in the score of a placed model.

This weight and the following ones: chosen by `benchmarks.bench_silence`, leaving out one set.
"""
_SCORE_BY_SENTENCE = np.array([0.0, 0.0, 3.5, 0.0, -5.0, 25.0])
"""The same where the agreement of sentences is known."""
_ABOVE_GENERAL = 0.0
"""The greatest distance of the threshold above the highest scores of general questions there."""
_BELOW_LOW_MADE = 3.1
"""The least distance of the threshold below the lower quartile of made questions' scores there.

People's wordings agree less with sentences than made questions do. In some corpora they agree
hardly more than general questions do; there, few questions can be refused. Chosen between two mixed
folders and a third.
"""
_SLOPE = 4.5
"""The increase of the logit from general questions to made ones."""
_LEAST = 0.3
"""The probability at the threshold of a placed model."""
_LOWEST_MADE, _LOW_MADE = 0.08, 0.25
"""The quantiles of the made questions' scores from which the thresholds are measured.

The second one is for the agreement of sentences. It is more certain if there are few questions.
"""
_BELOW_MADE = 0.3
"""The distance of the threshold below it, as a share of that from general to made questions.

People's wordings match passages less well than made questions do.
"""
_SPREAD = 3.0
"""The distance from general to made questions where there are too few made ones."""
_HIGHEST_GENERAL = 0.9
"""The quantile of the general questions' scores that is the threshold there."""
_UNSURE = 0.35
"""Probability by `DEFAULT` below which more passages are read (see `read_result`).

Chosen on one half of the sample's documents.
"""
_COMPARED = 5
"""Number of first passages that each passage is compared with."""
_UNKNOWN = 0.75
"""Least share of tokens, weighted by rarity, that an unknown query has in no chunk of the index.

For unknown queries, `_FOREIGN` replaces `UNRELATED`. No query of the benchmarks is unknown.
"""
_FOREIGN = 0.4
_WORST = 3
_FIRST = 8
"""Number of first passages that hold a question's names, and that others are compared with."""
_PENALTY = 10.0
"""Factor of the squared weights in the loss (ridge penalty). The evidence is standardised first."""


class Evidence(NamedTuple):
    """The evidence of passages, one row per passage.

    `best` is the row of the passage that has the highest late interaction. Passages that lack the
    query's years come last.
    """

    rows: Floats
    best: int

    @property
    def row(self) -> Floats:
        """Return the evidence of the best passage."""
        found: Floats = self.rows[self.best]
        return found


def evidence(
    query: str,
    read: Sequence[Passage],
    reader: Reader,
    weights: Weights | None = None,
    asked: str | None = None,
) -> Evidence:
    """Return the evidence that each passage answers the query, with one row per passage.

    `query` is the whole query, including the name of a document. `asked` is the searched part of
    the query, by default all of it. `read` has at least one passage.

    - late interaction: each token of the query has a highest cosine to a token of the passage or
      its context. Late interaction is the mean of these cosines, weighted by the tokens' rarity.
    - worst met: the mean of the three lowest of these cosines.
    - lead: late interaction minus its mean over the first five passages, this passage excluded.
    - same document: the share of those other passages that are from this passage's document.
    - unheld name: 1 if `asked` has a name that none of the passages holds (see `unheld_names`). It
      is also 1 if `asked` has years and this passage holds none of them.
    - best sentence: 0 here (see `sentence_evidence`).

    If there is a single passage, lead and same document are 0. For an unknown query (see
    `_UNKNOWN`), late interaction below `_FOREIGN` is set to 0.
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
    asked = query if asked is None else asked
    is_unheld = bool(unheld_names(asked, (p.chunk for p in read)))
    rows[:, 4] = [is_unheld or lacks_year(asked, one.chunk) for one in read]
    for n in numbers:
        others = (numbers < _COMPARED) & (numbers != n)
        if others.any():
            rows[n, 2] = late[n] - late[others].mean()
            rows[n, 3] = (documents[others] == documents[n]).mean()
    return Evidence(rows, int((late - 2 * rows[:, 4]).argmax()))


def _is_unknown(ids: TokenIds, weights: Weights | None) -> bool:
    if weights is None:
        return False
    own = rarity(ids, weights)
    return bool(own[own >= weights.max()].sum() >= _UNKNOWN * own.sum())


def read_result(
    found: SearchResult, reader: Reader, contexts: int | None = None
) -> tuple[list[Passage], Evidence | None]:
    """Return the passages of the first `contexts` chunks and their evidence.

    If their evidence is weak, return the passages of all chunks. If `contexts` is 0, read all
    chunks. If it is None, use `found.contexts`. If there are no passages, the evidence is None.
    """
    contexts = found.contexts if contexts is None else contexts
    first = found.chunks[: contexts or None]
    read, known = _read(found, first, reader)
    if len(first) < len(found.chunks) and (known is None or DEFAULT.chances(known.row) < _UNSURE):
        read, known = _read(found, found.chunks, reader)
    return read, known


def sentence_evidence(found: SearchResult, agreed: Agreed) -> Evidence | None:
    """Return the evidence of passages by their sentences alone, or None without sentences.

    `agreed` has the sentences of all chunks. The best sentence of a passage is their highest
    agreement. The lead is 1 minus the mean score of the first 8 passages, relative to the best.
    The late interaction is 1, and the other inputs are 0.
    """
    if not agreed.sentences:
        return None
    rows = np.zeros((len(found.chunks), len(EVIDENCE)))
    is_unheld = bool(unheld_names(found.search_text, found.chunks[:_FIRST]))
    scores = np.array([one.score for one in found.chunks])
    rows[:, 0] = 1.0
    if scores.max() > 0:
        rows[:, 2] = 1 - scores[:_FIRST].mean() / scores.max()
    rows[:, 4] = [is_unheld or lacks_year(found.search_text, one) for one in found.chunks]
    rows[:, SENTENCE] = agreed.of_chunks(len(found.chunks))
    return Evidence(rows, int((rows @ _SCORE_BY_SENTENCE).argmax()))


def _read(
    found: SearchResult, chunks: Sequence[ScoredChunk], reader: Reader
) -> tuple[list[Passage], Evidence | None]:
    read = read_passages(found.search_text, chunks, reader)
    weights, asked = found.token_weights, found.search_text
    return read, evidence(found.query, read, reader, weights, asked) if read else None


def passage_chances(
    found: SearchResult, reader: Reader, calibration: Calibration = DEFAULT
) -> list[float]:
    """Return each chunk's probability of answering the query.

    The probability is 0 if `read_passages` leaves the chunk out.
    """
    if calibration.by_sentence:
        known = sentence_evidence(found, ranked_sentences(found.query, found.chunks))
        return calibration.chances(known.rows).tolist() if known else [0.0] * len(found.chunks)
    chances = [0.0] * len(found.chunks)
    read = read_passages(found.query, found.chunks, reader)
    if read:
        asked = found.search_text
        rows = evidence(found.query, read, reader, found.token_weights, asked).rows
        for one, chance in zip(read, calibration.chances(rows).tolist(), strict=True):
            chances[one.rank - 1] = chance
    return chances


def fit(
    rows: Floats, answers: Sequence[bool], groups: Sequence[str], error: float
) -> Calibration | None:
    """Fit a model to the evidence of queries.

    `answers` tells whether the passages of each query hold the answer. Return None if fewer than
    `FEWEST` queries have an answer, or fewer than `FEWEST` have none. Cross-fitting keeps the
    queries of a group in one fold. A query searched with and without its gold documents is a group.
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
            cross[tested] = logistic(rows[tested] @ weights + intercept)
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


def placed(made: Floats, general: Floats) -> Calibration | None:
    """Return a model placed by the evidence of made questions and of general questions.

    The threshold is a little below the lowest scores of made questions. If there are few made
    questions, it is at the highest scores of general questions. If the agreement of sentences is
    known, it is the lower of two places: at the highest scores of general questions, and well below
    the low scores of made questions. With few made questions it is not above the median of general
    ones. Return None if there are no general questions. Also return None if enough made questions
    do not score higher than these.
    """
    if not len(general):
        return None
    by_sentence = bool(general[:, SENTENCE:].any())
    score = _SCORE_BY_SENTENCE if by_sentence else _SCORE
    near, far = made @ score, general @ score
    spread, least = _SPREAD, float(np.quantile(far, _HIGHEST_GENERAL))
    if by_sentence:
        low = float(np.quantile(near, _LOW_MADE)) if len(near) else math.inf
        least = min(least + _ABOVE_GENERAL, low - _BELOW_LOW_MADE)
        if len(near) < _FEWEST_MADE:
            least = min(least, float(np.median(far)))
    elif len(near) >= _FEWEST_MADE:
        spread = float(np.median(near) - np.median(far))
        least = float(np.quantile(near, _LOWEST_MADE)) - _BELOW_MADE * spread
    if spread <= 0:
        return None
    slope = _SLOPE / spread
    intercept = math.log(_LEAST / (1 - _LEAST)) - slope * least
    weights = tuple((slope * score).tolist())
    return Calibration(weights, intercept, _LEAST, answerable=len(made), unanswerable=len(general))


def threshold(chances: Floats, error: float) -> float:
    """Return the threshold that a new probability falls below with probability at most `error`.

    It is the k-th lowest of n `chances`, with k = floor(error (n + 1)), or 0 if k is 0. Source:
    split conformal prediction (Vovk et al., Algorithmic Learning in a Random World, 2005).
    """
    place = int(np.floor(error * (len(chances) + 1)))
    return float(np.sort(chances)[place - 1]) if place else 0.0


def auc(answered: Floats, others: Floats) -> float:
    """Return the area under the ROC curve (Hanley & McNeil, Radiology 1982).

    A pair is a query that has an answer and a query that has none. The area is the share of pairs
    where the query with an answer has the higher probability. A tie counts half.
    """
    wins = (answered[:, None] > others).mean() + 0.5 * (answered[:, None] == others).mean()
    return float(wins)


def _fitted(rows: Floats, held: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Floats, float]:
    mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    inputs = np.c_[(rows - mean) / scale, np.ones(len(rows))]
    penalty = np.diag([_PENALTY] * rows.shape[1] + [1e-6])
    found = np.zeros(inputs.shape[1])
    for _ in range(30):
        chance = logistic(inputs @ found)
        gradient = inputs.T @ (chance - held) + penalty @ found
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + penalty
        found -= np.linalg.solve(curve, gradient)
    weights = found[:-1] / scale
    return weights, float(found[-1] - weights @ mean)
