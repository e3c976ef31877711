"""Store a release's calibration: the fitted model of the probability that a query is answered."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_pipeline.errors import StoreError

Floats = npt.NDArray[np.float64]
EVIDENCE = (
    "late interaction",
    "worst met",
    "lead",
    "same document",
    "unheld name",
    "best sentence",
)
"""The inputs of the model (see `answering.confidence.evidence`)."""
SENTENCE = len(EVIDENCE) - 1
UNRELATED = 0.2
"""Late interaction below which a passage is unrelated to a query, in any language."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted logistic model: the weight of each input in `EVIDENCE`, and the intercept.

    If the probability is below `least`, the answer is "nothing found". This is wrong for about the
    share `error` of the queries that the passages answer (see `threshold`). `answerable` and
    `unanswerable` are the numbers of queries that the model is made from. `auc` is measured on
    cross-fitted probabilities. A model of `confidence.placed` has neither `error` nor `auc`.
    """

    weights: tuple[float, ...]
    intercept: float
    least: float
    error: float | None = None
    answerable: int = 0
    unanswerable: int = 0
    auc: float | None = None

    @property
    def by_sentence(self) -> bool:
        """Return whether the model reads the evidence of sentences (see `sentence_evidence`)."""
        return any(self.weights[SENTENCE:])

    def chances(self, rows: Floats) -> Floats:
        """Return for each row of evidence the probability, 0 to 1, that its passage answers.

        The probability is 0 if the late interaction is below `UNRELATED`.
        """
        if len(self.weights) > rows.shape[-1]:
            raise StoreError(
                f"the calibration has {len(self.weights)} inputs and this version knows "
                f"{rows.shape[-1]}: a newer version made the release; update, or use `rag run` here"
            )
        read = rows[..., : len(self.weights)]  # a kept release may have fewer inputs
        chances = logistic(read @ np.array(self.weights) + self.intercept)
        found: Floats = np.where(rows[..., 0] < UNRELATED, 0.0, chances)
        return found


DEFAULT = Calibration((6.6, 12.5, 23.1, 2.8, -9.0), -9.1, 0.04)
"""The calibration of releases with too few queries, fitted by `benchmarks.bench_calibration`.

The weight of unheld names and the threshold were chosen on questions about a mixed folder.
"""


def logistic(values: Floats) -> Floats:
    """Return the probability for each logit."""
    found: Floats = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return found
