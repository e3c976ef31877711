"""The part of a language model in the assistant, and the rules that replace a failing model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from rag_pipeline.answering.intent import Intent
from rag_pipeline.assistant.results import Detail
from rag_pipeline.config import AssistantSettings, ChatSettings
from rag_pipeline.datamodels import Answer, ScoredChunk
from rag_pipeline.errors import (
    BudgetError,
    CallsStoppedError,
    GivenUpError,
    MissingExtraError,
    ProviderError,
)

T = TypeVar("T")
_PATIENCE_SECONDS = 5.0
"""Maximum seconds of retries of a call."""


@dataclass(frozen=True, slots=True)
class Reflection:
    """A review of an answer: its verdicts, and a better answer or None."""

    verdicts: Mapping[str, bool]
    better: Answer | None = None


class Model(Protocol):
    """A language model's part in an answer; without a model, rules do it.

    Each method raises ProviderError or BudgetError if the model fails; see `ModelWithFallback`.
    """

    def rewrite(self, query: str) -> str:
        """Return the query in clearer words."""

    def detect(self, query: str) -> Intent:
        """Return the query's intent."""

    def keywords(
        self, query: str, document_id: str, texts: Sequence[str], instructions: str
    ) -> Sequence[str]:
        """Return boosted queries for one document; `texts` are its best passages."""

    def answer(
        self, query: str, intent: Intent, chunks: Sequence[ScoredChunk], instructions: str
    ) -> Answer:
        """Return an answer that cites the chunks by number."""

    def reflect(
        self,
        query: str,
        intent: Intent,
        answer: Answer,
        chunks: Sequence[ScoredChunk],
        instructions: str,
    ) -> Reflection:
        """Review an answer, and improve it if a verdict is against it."""


def interactive(chat: ChatSettings, settings: AssistantSettings) -> ChatSettings:
    """Return a chat model's settings for a person who waits: no batches, and early failures."""
    seconds = settings.model_seconds
    impatient = chat.within(seconds, min(seconds, _PATIENCE_SECONDS))
    return impatient.model_copy(update={"batch": False})  # a provider's batches take hours


class ModelWithFallback:
    """Lets a model do the steps of one answer; if the model fails at a step, a rule does it.

    The model is not asked again once no call can work, or a call was given up: the user waits for
    one failure at most. With `needs_model` an outage, a refused key and a spent budget are raised.
    Safe to share between threads.
    """

    def __init__(self, needs_model: bool = False) -> None:
        self._needs_model = needs_model
        self._stopped: str | None = None
        self._failed: dict[str, str] = {}

    def __call__(
        self, detail: Detail, step: str, ask: Callable[[], T], rule: Callable[[], T], of: str = ""
    ) -> T:
        """Return the model's result, else the rule's; `by_rule` of `detail` then gives the reason.

        Raises MissingExtraError: a missing package is no outage.
        """
        reason = self._stopped
        if reason is None:
            try:
                return ask()
            except MissingExtraError:
                raise
            except (CallsStoppedError, BudgetError, GivenUpError) as error:
                if self._needs_model and not isinstance(error, GivenUpError):
                    raise
                reason = self._stopped = str(error)[:300]
            except ProviderError as error:
                reason = str(error)[:300]
        self._failed.setdefault(step, reason)
        detail.setdefault("by_rule", {})[f"{step} of {of}" if of else step] = reason
        return rule()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return one line that names the steps that rules did, with the first reason."""
        if not self._failed:
            return ()
        reason = next(iter(self._failed.values()))
        return (f"done by rules, as the model failed: {', '.join(self._failed)} ({reason})",)
