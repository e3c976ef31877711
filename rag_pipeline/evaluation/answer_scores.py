"""What is measured of an answer besides its facts and contexts: ours and other packages' scores."""

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
    """Settings of a score of answers; `score` is what `evaluation.scores` calls it."""

    metrics: ClassVar[tuple[Metric[Answered], ...]]
    """What it measures. The names of all metrics that are installed must differ."""
    score: str

    def measure(
        self, answered: Sequence[Answered], models: Models
    ) -> Sequence[Mapping[str, float | None] | ProviderError]:
        """Return the values by metric of each answer, or why they are not known.

        By default each metric measures each answer; a score that asks a model does it here.
        """
        return [{m.name: m.measure(one) for m in self.metrics} for one in answered]


def token_overlap(answered: Answered) -> float | None:
    """Return the F1 of the words shared with the expected answer; None without one.

    Case and punctuation do not count. Rajpurkar et al., SQuAD, 2016, without its removal of
    English articles, as answers may be in any language.
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
    """Compare answers with the expected ones, word by word."""

    score: Literal["token_overlap"]
    metrics: ClassVar[tuple[Metric[Answered], ...]] = (
        Metric(
            name="TokenF1",
            definition="F1 of the words that the answer shares with the expected answer.",
            measure=token_overlap,
        ),
    )
