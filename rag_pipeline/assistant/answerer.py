"""A question and its passages -> an answer, made as the release among the datasets is set to."""

from collections.abc import Sequence
from dataclasses import dataclass

from rag_pipeline.answering import DEFAULT, Calibration, Formed, Reader, ToAnswer, form_answers
from rag_pipeline.answering.intent import Intent
from rag_pipeline.assistant.datasets import AnswerMaker, Dataset, ReleasedDataset
from rag_pipeline.assistant.model import Model, ModelOrRules
from rag_pipeline.assistant.passages import Searched
from rag_pipeline.assistant.results import Detail
from rag_pipeline.config import AnswerSettings, ExtractiveAnswers
from rag_pipeline.datamodels import ScoredChunk
from rag_pipeline.errors import ProviderError


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question as all stages see it."""

    query: str
    intent: Intent
    chosen: Sequence[Dataset]
    document_id: str | None
    where: str | None
    instructions: str
    k: int
    first: int
    """How many of the `k` passages are read at first (see `ToAnswer`)."""
    by_model: ModelOrRules
    answers: AnswerSettings
    """Settings of how answers are made."""
    answer: AnswerMaker | None
    """Answers as these settings say; None where they are of quotes."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """An answer with what it was made from."""

    formed: Formed
    found: Searched


class Answerer:
    """Answers by the release's method, by the assistant's model, or by verbatim sentences."""

    def __init__(self, model: Model | None, reader: Reader) -> None:
        self._model = model
        self._reader = reader

    def answer(self, asked: AskedQuestion, found: Searched, detail: Detail) -> Formed:
        """Answer as the release is set to: by its chat model, by the assistant's, or by rules."""
        chunks, model, answer = [p.chunk for p in found.passages], self._model, asked.answer

        def by_rule() -> Formed:
            return self._quoted(asked, found, chunks)

        if not chunks:
            return by_rule()
        if answer is not None and not (model and asked.instructions):
            question = ToAnswer(found.ask, asked.intent.kind, chunks, query=asked.query)
            return asked.by_model(detail, "answer", lambda: _raised(answer([question])), by_rule)
        if model is None:
            return by_rule()
        return asked.by_model(
            detail,
            "answer",
            lambda: model.answer(asked.query, asked.intent, chunks, asked.instructions),
            by_rule,
        )

    def _quoted(
        self, asked: AskedQuestion, found: Searched, chunks: Sequence[ScoredChunk]
    ) -> Formed:
        """Answer by rule; where the release's answers are a model's, with the defaults."""
        answers = asked.answers
        settings = answers if isinstance(answers, ExtractiveAnswers) else ExtractiveAnswers()
        question = ToAnswer(
            *(found.ask, asked.intent.kind, chunks, found.token_weights, asked.query, asked.first)
        )
        (formed,) = form_answers([question], settings, self._reader, calibration_of(asked.chosen))
        return formed

    def confidence(self, asked: AskedQuestion, draft: Drafted) -> float:
        """Return 0..1: the answer's own, else that of its passages (see `extract_answers`)."""
        answer = draft.formed.answer
        if not answer.answered:
            return 0.0
        if answer.confidence is not None:
            return answer.confidence
        chunks = [p.chunk for p in draft.found.passages]
        by_rules = ToAnswer(asked.query, "general", chunks, draft.found.token_weights)
        (made,) = form_answers(
            [by_rules], ExtractiveAnswers(), self._reader, calibration_of(asked.chosen)
        )
        return made.answer.confidence or 0.0


def answers_of(chosen: Sequence[Dataset]) -> tuple[AnswerSettings, AnswerMaker | None]:
    """Return how the first release among some datasets answers, by default as nothing is set."""
    for dataset in chosen:
        if isinstance(dataset, ReleasedDataset):
            return dataset.answers()
    return ExtractiveAnswers(), None


def calibration_of(chosen: Sequence[Dataset]) -> Calibration:
    """Return that of the first release among some datasets, else the default."""
    for dataset in chosen:
        if isinstance(dataset, ReleasedDataset):
            return dataset.corpus.calibration()
    return DEFAULT


def _raised(made: Sequence[Formed | ProviderError]) -> Formed:
    (one,) = made
    if isinstance(one, ProviderError):
        raise one
    return one
