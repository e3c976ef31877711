"""Define scores of answers, and score answers by word overlap."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from rag_pipeline.config import Models, Settings
from rag_pipeline.datamodels import Answered as Answered
from rag_pipeline.errors import ProviderError
from rag_pipeline.evaluation.metrics import Metric

_WORD = re.compile(r"\w+")


class AnswerScore(Settings):
    """The settings of a score for answers. `evaluation.scores` selects a score by its name."""

    metrics: ClassVar[tuple[Metric[Answered], ...]]
    """The metrics of the score. Every installed metric needs its own name."""
    score: str

    def measure(
        self, answered: Sequence[Answered], models: Models
    ) -> Sequence[Mapping[str, float | None] | ProviderError]:
        """Return each answer's values by metric, or the error of its model call.

        The default calls no model. Override this method to ask one of `models`.
        """
        return [{m.name: m.measure(one) for m in self.metrics} for one in answered]


def token_overlap(answered: Answered) -> float | None:
    """Return the F1 (0 to 1) of an answer's words against the words of the expected answer.

    Return None if the query has no expected answer. Case and punctuation do not count. Source:
    Rajpurkar et al., SQuAD, 2016. Unlike in SQuAD, English articles count.
    """
    if answered.query.answer is None:
        return None
    given, expected = (
        Counter(_WORD.findall(text.casefold()))
        for text in (answered.answer.text, answered.query.answer)
    )
    shared = (given & expected).total()
    total = given.total() + expected.total()
    return 2 * shared / total if total else None


class TokenOverlap(AnswerScore):
    """A score that compares answers with expected answers, word by word."""

    score: Literal["token_overlap"]
    metrics: ClassVar[tuple[Metric[Answered], ...]] = (
        Metric(
            name="TokenF1",
            definition="F1 of the words that the answer shares with the expected answer.",
            measure=token_overlap,
        ),
    )
